"""Skill-KNN's main comparison (its Table 2) on all of its tasks."""

from skill_knn.command import DATABASES, SkillOptions, run

run(SkillOptions(tasks=(*DATABASES, "cogs.ps", "cogs.pa")), "skill_table2")
