"""kaggledbqa: text to SQL on real-world databases; the bank is Spider's (Skill-KNN).

    python experiments/kaggledbqa.py --scale tiny --retriever bm25 --data-dir DATA

CEIL's Table 2 has no number for this task.
DATA is a folder that contains kaggledbqa/ with the hub's column names.
"""

from runner import run

run("kaggledbqa")
