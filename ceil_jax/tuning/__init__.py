"""The best way of choosing examples for a user's data and LM, within a budget: `ceil-jax tune`.

How candidates race and what is certain is in `racing`, how one method is evaluated in `pipeline`.

- `options`: what a user may set.
- `candidates`: the search space.
- `split`: bank, tuning rows and final rows.
- `answers`: the LM's answers by the content of prompts, and what they cost.
- `field`: each candidate's prompts and scores.
- `learned`: whether a trained method may join, and what it costs.
- `tune`: the search.
- `finals`: the final rows, looked at once.
- `outcome`: what was found, as tables and sentences.
- `frontier`: score against tokens, drawn.
- `usage`: programs that use what is recommended.
- `write`: the page (tune.html), the numbers and the selector.
"""
