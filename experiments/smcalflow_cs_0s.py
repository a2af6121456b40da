"""smcalflow_cs.0s: SMCalFlow-CS, single-domain test, no shot across domains.

    python experiments/smcalflow_cs_0s.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with smcalflow_cs/ in the hub's column names.
"""

from runner import run

run("smcalflow_cs.0s")
