"""Skill-KNN's Figure 5: database tables and length of SQL in the examples that each variant selects."""

from skill_knn.command import SelectedOptions, run
from skill_knn.comparison import DATABASES, SKILLS

run(SelectedOptions(tasks=DATABASES, method=(*SKILLS[1:], "target_knn")), "skill_figure5")
