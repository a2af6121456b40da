"""scan.addprim_jump: SCAN, add-primitive split: "jump" is known alone, the test composes it.

    python experiments/scan_addprim_jump.py --scale tiny --retriever bm25

Paper: no number in CEIL's Table 2.
"""

from runner import run

run("scan.addprim_jump")
