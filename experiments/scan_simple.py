"""scan.simple: SCAN commands to actions, simple split, enumerated from the grammar.

    python experiments/scan_simple.py --scale tiny --retriever bm25

Paper: no number in CEIL's Table 2.
"""

from runner import run

run("scan.simple")
