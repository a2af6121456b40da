"""One run: a task, an LM and an encoder; the stages that a method needs are computed once and kept on disk.

How retrievers choose is in `retrieval/` and `skills/`, how encoders learn in `training/`, and tables of several runs
in `report/`. A run is put together from parts that are given to each other: `compose.open_run` shows all of them.

- `config`: the settings of a run, the scales, the demo.
- `methods`: the rows of a comparison: a retriever and the encoder that it compares with; the guard on trained ones.
- `models`: LMs and encoders by name, vectors and trained weights kept on disk, the prompts of a task.
- `search`: the retrieval text of examples; nearest examples, candidate sets, a retriever's choice.
- `training_data`: training queries, candidate sets and their scores; the tuned λ.
- `trained`: the trainer of TST, EPR and CEIL.
- `run`: a method's examples, answers and metric.
- `compose`: a run from its configuration; one trainer for the tasks of several runs.
- `evaluate`: predictions, and what their metric is computed from.
- `export`: a method as a selector.
- `records`: the record of an evaluation (`Record`), and a folder of stages that has them.

Names for other rooms: `RunConfig`, `SCALES`, `DEMO`; `METHODS`, `TRAINED`; `Models`, `Encoders`; `open_run`,
`joint_trainer`, `Run`, `Trainer`; `Record`, `Evaluation`, `read_records`; `export`, `selector_of`.
"""
