"""Skill-KNN on COGS: known words in new roles and known structures in new combinations."""

from skill_knn.command import SkillOptions, run

run(SkillOptions(tasks=("cogs.ps", "cogs.pa")), "cogs")
