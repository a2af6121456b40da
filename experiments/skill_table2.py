"""Skill-KNN's main comparison (its Table 2) on all of its tasks.

    python experiments/skill_table2.py --scale small --data-dir DATA

If DATA contains KaggleDBQA: --tasks spider kaggledbqa. The last table counts wins. Several LMs answer with --lms A B
(the paper has four, its Table 4 a fifth). Another embedding, such as the paper's Babbage behind an endpoint, is one
more row: --retriever random topk topk@http://localhost:8000/v1#babbage skill_base.
"""

import sys

from skill_knn.command import SkillOptions, main

TASKS = ("spider", "dr_spider.db", "dr_spider.nlq", "dr_spider.sql", "cogs.ps", "cogs.pa")

if __name__ == "__main__":
    sys.exit(main(SkillOptions(tasks=TASKS), "skill_table2"))
