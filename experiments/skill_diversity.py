"""Skills with diversity: nearest skills and DPP-MAP over skills, those of gold outputs and those of the LM."""

from skill_knn.command import DIVERSE, SkillOptions, run
from skill_knn.diversity import register

register()
run(SkillOptions(tasks=("spider", "cogs.ps", "cogs.pa"), method=DIVERSE), "skill_diversity")
