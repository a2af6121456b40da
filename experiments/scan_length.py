"""scan.length: SCAN, length split: the test's action sequences are longer than the bank's.

    python experiments/scan_length.py --scale tiny --retriever bm25

Paper: no number in CEIL's Table 2.
"""

from runner import run

run("scan.length")
