"""geoquery.length: GeoQuery, length split: the test is longer than the bank.

    python experiments/geoquery_length.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with geoquery/ in the hub's column names.
"""

from runner import run

run("geoquery.length")
