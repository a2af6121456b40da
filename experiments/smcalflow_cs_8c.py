"""smcalflow_cs.8c: SMCalFlow-CS, cross-domain test, every prompt starts with 8 cross-domain examples.

    python experiments/smcalflow_cs_8c.py --scale tiny --retriever bm25 --data-dir DATA

CEIL's Table 2 has no number for this task.
DATA is a folder that contains smcalflow_cs/ with the hub's column names.
"""

from runner import run

run("smcalflow_cs.8c")
