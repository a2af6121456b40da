"""Skill-KNN's Figure 5: how complex the variants' examples are, by tables of the database and length of the SQL.

    python experiments/skill_figure5.py --scale small --data-dir DATA

The LM rewrites and does not answer. The paper's Table 6 (different databases) is a column of the same table:
--retriever skill_distinct target_knn.
"""

import sys

from skill_knn.command import SkillOptions, main

TASKS = ("spider", "dr_spider.db", "dr_spider.nlq", "dr_spider.sql")
METHODS = ("skill_consistency", "skill_distinct", "skill_joined", "target_knn")

if __name__ == "__main__":
    sys.exit(main(SkillOptions(tasks=TASKS, retriever=METHODS, answer=False), "skill_figure5"))
