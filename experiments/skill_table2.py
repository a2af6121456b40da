"""Skill-KNN's main comparison (its Table 2) on all of its tasks."""

import sys

from skill_knn.comparison import COGS, DATABASES, skill_experiment

EXPERIMENT = skill_experiment("skill_table2", "Skill-KNN's Table 2", (*DATABASES, *COGS))

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
