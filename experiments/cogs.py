"""Skill-KNN on COGS: known words in new roles and known structures in new combinations."""

import sys

from skill_knn.comparison import COGS, skill_experiment

EXPERIMENT = skill_experiment("cogs", "Skill-KNN on COGS", COGS)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
