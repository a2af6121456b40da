"""Many candidates and few rows: which to ask next, when to stop, and what is certain at the end.

Statistics and bookkeeping only: no language model, no file, no retriever. What races may be the settings of one
selector, the methods of a run, or simulated candidates whose truth is known (`experiments/tune_worlds.py`).

- `race`: the rounds of a race, who is dropped and who wins.
- `paired`: paired tests on the same rows, and their correction for many.
- `verdict`: scores and differences on the final rows, and what to recommend.
- `budget`: tokens, prompts, seconds and money: what is spent and what is left.
- `split`: how many rows to race on, and how many to keep for the end.
"""
