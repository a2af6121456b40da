"""geoquery.template: GeoQuery, template split: query templates of the test are new.

    python experiments/geoquery_template.py --scale tiny --retriever bm25 --data-dir DATA

CEIL's Table 2 has no number for this task.
DATA is a folder that contains geoquery/ with the hub's column names.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 exact_match 18.8 (95 % interval 0.0 to
37.5), 12 s.
"""

from runner import run

run("geoquery.template")
