"""smcalflow_cs.0s: SMCalFlow-CS, single-domain test, no cross-domain example in the prompt.

    python experiments/smcalflow_cs_0s.py --scale tiny --retriever bm25 --data-dir DATA

CEIL's Table 2 has no number for this task.
DATA is a folder that contains smcalflow_cs/ with the hub's column names.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 exact_match 0.0 (95 % interval 0.0 to
0.0), 35 s.
"""

from runner import run

run("smcalflow_cs.0s")
