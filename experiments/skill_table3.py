"""Skill-KNN's Table 3: Skill-KNN beside EPR, which one LM scored and others answer with.

    python experiments/skill_table3.py --scale small --data-dir DATA --lms gemma-3-270m --scorer SmolLM2-135M-Instruct

The paper's scorer is GPT-J (6B). EPR's encoder starts from --encoder, Skill-KNN's (the paper: BERT-base for EPR).
"""

import sys

from skill_knn.command import SkillOptions, main

METHODS = ("epr", "skill_base", "skill_consistency", "skill_distinct", "skill_joined")
LMS = ("gemma-3-270m", "SmolLM2-135M-Instruct")

if __name__ == "__main__":
    options = SkillOptions(tasks=("spider",), retriever=METHODS, lms=LMS, scorer="SmolLM2-135M-Instruct")
    sys.exit(main(options, "skill_table3"))
