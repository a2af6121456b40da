"""A run as a graph of stages: a stage is a value that names the stages it needs, and is computed
once and kept.

Start with `stage`, then `setup` and `row_stages`; the other modules hold one kind of stage each.

- `stage`: `Stage`, its key, and `Run`, which gets a stage's value from memory, from disk or by
  computing it
- `setup`: `Setup`, a task under one configuration, and `open_run`
- `row_stages`: which stages a row needs, from its metric down to the texts
- `views`: examples and their retrieval texts
- `vectors`: the vectors of texts and of examples
- `encoders`: heads and trained encoders
- `choosing`: chosen examples and candidate sets
- `scoring`: the LM's scores of candidate sets, and λ
- `shared_sets`: one set of examples for all queries
- `ways`: how an LM answers: by choosing, by writing, or by writing a choice
- `answering`: predictions and metrics
- `usage`: the tokens of a row's prompts, for prices
- `evaluate`: one row evaluated, with its cost
- `plan`: what a run would compute, in LM tokens and minutes; `minutes`: a comparison cut to fit
  some
- `export`: a row as a selector
- `records`: the record of an evaluation
- `models`: LMs and encoders by name; `config`: settings and scales
"""
