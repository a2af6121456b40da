"""hellaswag: which of four endings follows? HellaSwag itself, which the paper does not measure.

    python experiments/hellaswag.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with hellaswag/ in the hub's column names; without --data-dir the hub's
Rowan/hellaswag is read.
"""

from runner import run

run("hellaswag")
