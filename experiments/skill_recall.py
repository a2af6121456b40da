"""recall@N: 100 answers are sampled at temperature 0.7 and ranked by how often they were drawn.

python experiments/skill_recall.py --scale small --data-dir DATA
"""

import sys

from skill_knn.command import RecallOptions, main

if __name__ == "__main__":
    sys.exit(main(RecallOptions(tasks=("spider", "cogs.ps")), "skill_recall"))
