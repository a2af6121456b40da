"""geoquery.template: GeoQuery, template split: query templates of the test are new.

    python experiments/geoquery_template.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with geoquery/ in the hub's column names.
"""

from runner import run

run("geoquery.template")
