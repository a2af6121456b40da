"""Measures of the selected examples: sketch overlap with the query, databases, tables and length of the SQL."""

from skill_knn.command import SelectedOptions, run

run(SelectedOptions(tasks=("spider", "cogs.ps", "cogs.pa")), "skill_selected")
