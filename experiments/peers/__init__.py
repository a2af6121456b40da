"""Other widely used ways of choosing examples, run with the same LM, for `optimisers.py`.

- `arena`: a task's rows for one split, the LM that all are asked through, and what it has read
- `counted`: that LM, which counts what a server would bill
- `dspy_programs`: DSPy's LabeledFewShot, KNNFewShot and random search
- `langchain_selectors`: LangChain's similarity and MMR selectors
- `comparison`: the tables, from records
- `optuna_search`: Optuna over the search space of `ceil-jax tune`
- `ours`: `ceil-jax tune` itself, eight nearest examples, zero examples

DSPy, LangChain and Optuna are imported by these modules alone.
"""
