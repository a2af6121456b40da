"""cogs.ps, cogs.pa: COGS, known words in new roles and known structures in new combinations (Skill-KNN).

    python experiments/cogs.py --scale small --data-dir DATA

small is a bank of 200, 40 queries per task, 5 orders of the demonstrations, 3 seeds of random: 1,400 rewrites and 28
evaluations, 14 minutes on 2 CPU cores. DATA is a folder with cogs/ in the hub's column names. Its output is in
experiments/NOTES.md.
"""

import sys

from skill_knn.command import SkillOptions, main

if __name__ == "__main__":
    sys.exit(main(SkillOptions(tasks=("cogs.ps", "cogs.pa")), "cogs"))
