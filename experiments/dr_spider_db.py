"""dr_spider.db: Spider under perturbed databases (Dr.Spider; Skill-KNN).

    python experiments/dr_spider_db.py --scale tiny --retriever bm25 --data-dir DATA

CEIL's Table 2 has no number for this task.
DATA is a folder that contains dr_spider/ with the hub's column names.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 sql_execution 0.0 (95 % interval 0.0 to
0.0), 69 s.
"""

from runner import run

run("dr_spider.db")
