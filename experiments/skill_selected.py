"""Measures of the selected examples: sketch overlap with the query, databases, tables and length of
the SQL."""

from skill_knn.command import SelectedOptions, run
from skill_knn.comparison import COGS

run(SelectedOptions(tasks=("spider", *COGS)), "skill_selected")
