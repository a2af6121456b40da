"""Skill-KNN's comparison and analyses, for the scripts `skill_*.py`, `cogs.py` and `spider.py`
beside this folder.

The retrievers themselves live in `ceil_jax.skills`.

- `comparison`: Skill-KNN compared with other retrievers, as an experiment, with wins and measures
  of the selected examples
- `selection`: those measures
- `command`: the command line of the analyses, which are not experiments
- `analysis`: recall@N and t-SNE
- `hardness`: Spider's hardness of a SQL query
- `recall`: recall@N of sampled answers
- `gold`: skills written from gold outputs, and the oracle `target_skill` that compares them
- `diversity`: DPP-MAP over skills
- `figure`: the spaces of raw inputs and of skills side by side; measures of the selected examples
"""
