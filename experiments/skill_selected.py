"""Measures of the selected examples: sketch overlap with the query, databases, tables and length of the SQL."""

from skill_knn.command import SkillOptions, run

run(SkillOptions(tasks=("spider", "cogs.ps", "cogs.pa"), answer=False), "skill_selected")
