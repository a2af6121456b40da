"""dr_spider.db: Spider under perturbed databases (Dr.Spider; Skill-KNN).

    python experiments/dr_spider_db.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with dr_spider/ in the hub's column names.
"""

from runner import run

run("dr_spider.db")
