"""The best way of choosing examples for a user's data and LM, within a budget: `ceil-jax tune`.

How candidates race and what is certain is in `racing`, how one method is evaluated in `pipeline`.

- `config`: the settings of a search.
- `candidates`: the ways of choosing examples that are searched.
- `rows`: bank, tuning rows and final rows.
- `field`: each candidate's prompts, the LM's answers to them, and what they cost.
- `tune`: the search.
- `outcome`: what was found, as tables, sentences and JSON.
- `write`: the page (tune.html), the numbers and the selector.
"""
