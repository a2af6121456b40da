"""recall@N: 100 answers sampled at temperature 0.7, ranked by how often they came.

python experiments/skill_recall.py --scale small --data-dir DATA
"""

import sys

from skill_knn.command import RecallOptions, main

if __name__ == "__main__":
    sys.exit(main(RecallOptions(tasks=("spider", "cogs.ps")), "skill_recall"))
