"""scan.addprim_jump: SCAN, add-primitive split: the bank has "jump" alone, the test composes it.

    python experiments/scan_addprim_jump.py --scale tiny --retriever bm25

CEIL's Table 2 has no number for this task.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 exact_match 0.0 (95 % interval 0.0 to
0.0), 97 s.
"""

from runner import run

run("scan.addprim_jump")
