"""Racing: which of many candidates is best, measured on few rows.

Statistics and bookkeeping only: no language model, no file, no retriever. Candidates may be settings of one selector,
methods of a run, or simulations with known scores (`experiments/tune_worlds.py`).

- `race`: the rounds of a race, the dropped candidates and the winner.
- `paired`: paired tests on the same rows, and their correction for many comparisons.
- `verdict`: scores and differences on the final rows, and the recommendation.
- `budget`: LM tokens and minutes, spent and remaining.
"""
