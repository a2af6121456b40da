"""geoquery.tmcd: GeoQuery, TMCD split: compounds diverge between bank and test.

    python experiments/geoquery_tmcd.py --scale tiny --retriever bm25 --data-dir DATA

CEIL's Table 2 has no number for this task.
DATA is a folder that contains geoquery/ with the hub's column names.
"""

from runner import run

run("geoquery.tmcd")
