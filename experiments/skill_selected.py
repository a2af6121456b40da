r"""Measures of the selected examples: sketch overlap with the query, databases, tables and length of the SQL.

    python experiments/skill_selected.py --scale paper --encoder all-mpnet-base-v2 --lm SmolLM2-135M-Instruct \
        --limit 300 --data-dir DATA

These methods need no LM: --retriever random topk target_knn target_skill target_sketch.
"""

import sys

from skill_knn.command import SkillOptions, main

if __name__ == "__main__":
    sys.exit(main(SkillOptions(tasks=("spider", "cogs.ps", "cogs.pa"), answer=False), "skill_selected"))
