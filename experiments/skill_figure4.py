"""Skill-KNN's Figure 4: t-SNE of raw inputs and of skills (bank grey, test orange).

    python experiments/skill_figure4.py --scale small --data-dir DATA

As in the paper, skills are the means over all orders of the demonstrations (the consistency-based variant), and only
examples of medium hardness are drawn where there is SQL (--hardness "" draws all).

--gold draws skills written from the gold outputs, an oracle that needs no LM. On cogs.ps (bank 2,000, 300 queries)
most of its points are copies of a few vectors, which t-SNE at perplexity 3 spreads evenly over a disc: the picture
shows that test and bank mix; its rings have no meaning. The figure has not been drawn for the LM's skills.
"""

import sys

from skill_knn.command import FigureOptions, main

if __name__ == "__main__":
    sys.exit(main(FigureOptions(tasks=("spider", "cogs.ps")), "skill_figure4"))
