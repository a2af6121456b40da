"""spider: text to SQL on databases never seen (Skill-KNN).

    python experiments/spider.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with spider/ in the hub's column names; without --data-dir the hub's xlangai/spider
is read.
"""

from runner import run

run("spider")
