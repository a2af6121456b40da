"""kaggledbqa: text to SQL on real-world databases; the bank is Spider's (Skill-KNN).

    python experiments/kaggledbqa.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with kaggledbqa/ in the hub's column names.
"""

from runner import run

run("kaggledbqa")
