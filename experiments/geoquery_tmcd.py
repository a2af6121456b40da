"""geoquery.tmcd: GeoQuery, TMCD split: compounds diverge between bank and test.

    python experiments/geoquery_tmcd.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with geoquery/ in the hub's column names.
"""

from runner import run

run("geoquery.tmcd")
