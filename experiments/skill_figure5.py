"""Skill-KNN's Figure 5: tables of the database and length of the SQL of the variants' examples."""

from skill_knn.command import SelectedOptions, run
from skill_knn.comparison import DATABASES, SKILLS

run(SelectedOptions(tasks=DATABASES, method=(*SKILLS[1:], "target_knn")), "skill_figure5")
