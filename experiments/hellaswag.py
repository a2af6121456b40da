"""hellaswag: which of four endings follows? HellaSwag itself, which the paper does not measure.

    python experiments/hellaswag.py --scale tiny --retriever bm25 --data-dir DATA

CEIL's Table 2 has no number for this task.
DATA is a folder that contains hellaswag/ with the hub's column names. Without --data-dir,
Rowan/hellaswag is read from the hub.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 accuracy 37.5 (95 % interval 12.5 to
62.5), 19 s.
"""

from runner import run

run("hellaswag")
