"""The methods: how the encoders of each row of a comparison are trained.

Each is a frozen dataclass in a file of its own.

A method's fields are its settings, its flags and its part of a stage's key. Its `learn` is its
program, a few steps in its paper's order; `pipeline.steps` has the steps. Retrievers, which choose
examples with a method's vectors, are in `retrieval/` and `skills/`.

- `base`: `Method`, `Steps`, what a method has `Learnt`, and the base classes of those that learn:
  `LearnsFromOutputs` and `LearnsFromScores`
- `untrained`: the encoder as it was loaded
- `copied`: the nearest example's output as the answer
- `free`: heads trained on the bank's outputs, without an LM
- `tst`: target similarity tuning
- `epr`: EPR, single examples
- `ceil`: CEIL, sets
- `second_round`: CEIL on single examples, a second round of EPR
- `fixed`: one set of examples for every query
- `fixed_near`: some fixed examples, then some near ones
- `row`: `Row`, a method with a retriever and a label
- `registry`: all rows by name; `register_row`, `register_retriever`
- `build`: `build_retriever`, every retriever by name over any encoder
"""
