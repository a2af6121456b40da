"""recall@N of sampled answers: 100 answers at temperature 0.7, ranked by how often they were drawn."""

from skill_knn.command import RecallOptions, run

run(RecallOptions(tasks=("spider", "cogs.ps")), "skill_recall")
