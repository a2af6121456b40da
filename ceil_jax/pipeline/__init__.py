"""A run as a graph of stages: a stage is a value that names the stages it needs, and is computed
once and kept.

Start with `stage`, then `graph`; the other modules hold one kind of stage each.

- `stage`: `Stage`, its key, and `Run`, which gets a stage's value from memory, from disk or by
  computing it
- `graph`: `Graph`, which stages the rows of a comparison need, from a configuration and a task
- `views`: examples and their retrieval texts
- `encoders`: untrained and trained encoders, and vectors
- `choosing`: chosen examples and candidate sets
- `scoring`: the LM's scores of candidate sets, and λ
- `answering`: predictions and metrics
- `methods`: the rows of a comparison and their registry; `trainings`: TST, EPR and CEIL, one value
  each; `free`: methods on vectors, most of which learn from the bank's outputs without an LM
- `evaluate`: one method evaluated, with its cost
- `plan`: what a run would compute, in LM tokens and minutes; `minutes`: a comparison cut to fit
  some
- `export`: a method as a selector
- `records`: the record of an evaluation
- `models`: LMs and encoders by name; `config`: settings and scales
"""
