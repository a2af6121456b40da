"""Skill-KNN's Table 3: Skill-KNN compared with EPR. The LM of --lm scores, and those of --lms
answer."""

import sys

from skill_knn.comparison import SKILLS, skill_experiment

EXPERIMENT = skill_experiment(
    "skill_table3",
    "Skill-KNN's Table 3",
    ("spider",),
    ("epr", *SKILLS),
    ("gemma-3-270m", "SmolLM2-135M-Instruct"),
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
