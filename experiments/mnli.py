"""mnli: does a premise entail, contradict or leave open a hypothesis?.

    python experiments/mnli.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 37.74, BM25 40.68, Contriever 45.28, SimCSE 44.85,
BERT 42.15, DPP-BERT 39.6, EPR 66.06, CEIL 71.74.
DATA is a folder that contains mnli/ with the hub's column names. Without --data-dir, nyu-mll/glue
is read from the hub.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 accuracy 50.0 (95 % interval 25.0 to
75.0), 11 s.
"""

from runner import run

run("mnli")
