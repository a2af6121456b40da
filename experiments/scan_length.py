"""scan.length: SCAN, length split: test action sequences are longer than those of the bank.

    python experiments/scan_length.py --scale tiny --retriever bm25

CEIL's Table 2 has no number for this task.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 exact_match 0.0 (95 % interval 0.0 to
0.0), 79 s.
"""

from runner import run

run("scan.length")
