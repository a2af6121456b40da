"""smcalflow_cs.32c: SMCalFlow-CS, cross-domain test, 32 cross-domain examples open every prompt.

    python experiments/smcalflow_cs_32c.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with smcalflow_cs/ in the hub's column names.
"""

from runner import run

run("smcalflow_cs.32c")
