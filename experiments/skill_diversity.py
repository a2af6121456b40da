"""Skills with diversity: nearest skills and DPP-MAP over skills, those of gold outputs and those of the LM.

    python experiments/skill_diversity.py --scale small --data-dir DATA
    python experiments/skill_diversity.py --no-answer --limit 300 --bank-limit 2000 --trade-off 0.05 --data-dir DATA \
        --retriever topk dpp target_skill target_skill_map

The second command needs no LM: `sketch coverage` is the share of a query's sketch that stands in at least one of its
examples. `ceil-jax compare --text skill --retriever dpp` is MAP over the LM's skills on any task.
"""

import sys

from skill_knn.command import SkillOptions, main
from skill_knn.diversity import register

METHODS = ("topk", "dpp", "skill_base", "skill_map", "target_skill", "target_skill_map")

if __name__ == "__main__":
    register()
    sys.exit(main(SkillOptions(tasks=("spider", "cogs.ps", "cogs.pa"), retriever=METHODS), "skill_diversity"))
