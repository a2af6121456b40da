"""recall@N: 100 answers are sampled at temperature 0.7 and ranked by how often they were drawn."""

from skill_knn.command import RecallOptions, run

run(RecallOptions(tasks=("spider", "cogs.ps")), "skill_recall")
