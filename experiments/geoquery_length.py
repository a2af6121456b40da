"""geoquery.length: GeoQuery, length split: the test is longer than the bank.

    python experiments/geoquery_length.py --scale tiny --retriever bm25 --data-dir DATA

CEIL's Table 2 has no number for this task.
DATA is a folder that contains geoquery/ with the hub's column names.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 exact_match 25.0 (95 % interval 6.2 to
50.0), 10 s.
"""

from runner import run

run("geoquery.length")
