"""scan.addprim_turn_left: SCAN, add-primitive split: "turn left" is known alone, the test composes it.

    python experiments/scan_addprim_turn_left.py --scale tiny --retriever bm25

Paper: no number in CEIL's Table 2.
"""

from runner import run

run("scan.addprim_turn_left")
