"""spider: text to SQL on unseen databases (Skill-KNN).

    python experiments/spider.py --scale small --data-dir DATA

small is a bank of 200, 40 queries, 5 orders of the demonstrations, 3 seeds of random: 1,200 rewrites and 14
evaluations, 34 minutes on 2 CPU cores. DATA is a folder with spider/ in the hub's column names, tables.json and
databases; the hub has neither tables.json nor databases. Its output is in experiments/NOTES.md.
"""

import sys

from skill_knn.command import SkillOptions, main

if __name__ == "__main__":
    sys.exit(main(SkillOptions(tasks=("spider",)), "spider"))
