"""Skill-KNN's Figure 5: tables of the database and length of the SQL of the variants' examples."""

from skill_knn.command import DATABASES, SKILLS, SkillOptions, run

run(SkillOptions(tasks=DATABASES, method=(*SKILLS[1:], "target_knn"), answer=False), "skill_figure5")
