"""Skill-KNN on Spider: text to SQL on unseen databases."""

from skill_knn.command import SkillOptions, run

run(SkillOptions(tasks=("spider",)), "spider")
