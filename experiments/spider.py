"""Skill-KNN on Spider: text to SQL on unseen databases."""

import sys

from skill_knn.comparison import skill_experiment

EXPERIMENT = skill_experiment("spider", "Skill-KNN on Spider", ("spider",))

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
