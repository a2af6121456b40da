"""hellaswag: which of four endings follows? HellaSwag itself, which the paper does not measure.

    python experiments/hellaswag.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with hellaswag/ in the hub's column names; without --data-dir the hub's
Rowan/hellaswag is read.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 accuracy 37.5 (95 % interval 12.5 to
62.5), 19 s.
"""

from runner import run

run("hellaswag")
