"""Skill-KNN's Figure 4: t-SNE of raw inputs and of skills (bank grey, test orange)."""

from skill_knn.command import FigureOptions, run

run(FigureOptions(tasks=("spider", "cogs.ps")), "skill_figure4")
