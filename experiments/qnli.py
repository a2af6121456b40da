"""qnli: does a sentence answer a question?

    python experiments/qnli.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 56.67, BM25 62.29, Contriever 60.97, SimCSE 61.58,
BERT 64.65, DPP-BERT 63.83, EPR 80.76, CEIL 85.41.
DATA is a folder that contains qnli/ with the hub's column names. Without --data-dir, nyu-mll/glue
is read from the hub.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 accuracy 56.2 (95 % interval 31.2 to
81.2), 16 s.
"""

from runner import run

run("qnli")
