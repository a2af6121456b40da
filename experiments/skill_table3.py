"""Skill-KNN's Table 3: Skill-KNN beside EPR, which one LM scored and others answer with."""

from skill_knn.command import LM, SKILLS, SkillOptions, run

run(
    SkillOptions(tasks=("spider",), method=("epr", *SKILLS), lms=("gemma-3-270m", LM), scorer=LM),
    "skill_table3",
)
