"""The methods that the rows of a comparison learn by: one file a method, each a frozen dataclass.

A method is its settings, its flags and its part of a stage's key, and says how encoders learn from
arrays. It makes no stages and reads no folders: `pipeline.row_stages` does. Retrievers, which choose
examples with a method's vectors, are in `retrieval/` and `skills/`.

- `base`: `Method` and its two kinds, `LearnsFromOutputs` and `LearnsFromScores`
- `untrained`: the encoder as it was loaded
- `free`: heads that the bank's outputs teach, without an LM
- `tst`: target similarity tuning
- `epr`: EPR, single examples
- `ceil`: CEIL, sets
- `second_round`: CEIL on single examples, a second round of EPR
- `fixed`: one set of examples for all queries
- `fixed_near`: a fixed beginning, and near examples behind it
- `row`: `Row`, a method with a retriever and a label
- `registry`: all rows by name; `register_row`, `register_retriever`
- `build`: `build_retriever`, every retriever by name over any encoder
"""
