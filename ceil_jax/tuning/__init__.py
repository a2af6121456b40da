"""The search of `ceil-jax tune` for the best way of choosing examples within a budget.

The data and the LM are the user's.

How one method is evaluated is in `pipeline`. `race`, `paired`, `loss` and `verdict` hold only
statistics, so that simulated candidates with known scores can race in the same way
(`experiments/tune_worlds.py`).

- `config`: the settings of a search.
- `candidates`: the ways of choosing examples that are searched.
- `rows`: bank, tuning rows and final rows.
- `budget`: LM tokens and minutes, spent and remaining.
- `race`: the rounds of a race, the dropped candidates and the winner.
- `paired`: paired tests on the same rows, and their correction for many comparisons.
- `loss`: the expected loss of a cheaper prompt.
- `verdict`: scores and differences on the final rows, and the recommendation.
- `field`: the candidates' prompts, the LM's answers to them, and what they cost.
- `search`: the search from its settings to its outcome, one loop.
- `final_rows`: the finalists' answers to the final rows, and notes on them.
- `without_lm`: a classifier, or the nearest output, compared with the prompts.
- `standing`: a candidate's result.
- `finals`: the finalists' results, and which is recommended.
- `finals_table`: these as a table.
- `advice`: sentences on what is recommended, and why.
- `outcome`: the outcome for a terminal and as JSON.
- `page`: the page (tune.html).
- `write`: writes the page, the numbers and the selector.
"""
