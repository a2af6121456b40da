"""mrpc: is one sentence a paraphrase of the other?

    python experiments/mrpc.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 67.65, BM25 69.36, Contriever 67.89, SimCSE 66.91,
BERT 69.36, DPP-BERT 69.61, EPR 75.98, CEIL 80.15.
DATA is a folder that contains mrpc/ with the hub's column names. Without --data-dir, nyu-mll/glue
is read from the hub.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 accuracy 75.0 (95 % interval 50.0 to
93.8), 12 s.
"""

from runner import run

run("mrpc")
