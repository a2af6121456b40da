"""Skills with diversity: nearest skills and DPP-MAP over skills, for the LM's skills and for those
of gold outputs."""

import sys

from skill_knn.comparison import COGS, skill_experiment

EXPERIMENT = skill_experiment(
    "skill_diversity",
    "Skills with diversity",
    ("spider", *COGS),
    ("topk", "dpp", "skill_base", "skill_map", "target_skill", "target_skill_map"),
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
