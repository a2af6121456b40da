"""Skill-KNN's main comparison on all of its tasks.

    python experiments/skill_table2.py --scale small --data-dir DATA

With KaggleDBQA where DATA has it: --tasks spider kaggledbqa.
"""

import sys

from skill_knn.command import SkillOptions, main

TASKS = ("spider", "dr_spider.db", "dr_spider.nlq", "dr_spider.sql", "cogs.ps", "cogs.pa")

if __name__ == "__main__":
    sys.exit(main(SkillOptions(tasks=TASKS), "skill_table2"))
