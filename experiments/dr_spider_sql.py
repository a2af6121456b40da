"""dr_spider.sql: Spider under perturbed queries (Dr.Spider; Skill-KNN).

    python experiments/dr_spider_sql.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with dr_spider/ in the hub's column names.
"""

from runner import run

run("dr_spider.sql")
