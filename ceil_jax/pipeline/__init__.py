"""Runs: each step is a function whose results are computed once and kept on disk (`store.kept`).

Such a lazy value is called a stage.

`ceil-jax compare --method epr ceil`, from the top:

1. `cli/commands.py`: `compare_command` reads the flags, and `setup.open_run` gives a `Run`, which
   computes, and a `Setup`, the task under one configuration.
2. `evaluate.lineup_of` puts the lazy values of each row together. Nothing is computed yet, and a dry
   run ends here. `row_stages.metric` has them in order: choose, answer, measure.
3. `row_stages.choice` first has the row's method learn: `methods/epr.py` and `methods/ceil.py` have
   `learn`, a program of the steps in `steps.py`. CEIL's start is EPR, which learns first.
   - `training_queries` are taken from the bank.
   - `candidate_sets` of each are drawn (`choosing.draw_sets`) from the start's nearest examples.
   - `lm_scores` asks the LM for log P of the query's output, given each set (`scoring.lm_scores`).
   - `trained` (`learning.train_encoders`) calls the method's `fit`, which trains the networks.
4. `choosing.choose` chooses examples by the vectors of these networks (`vectors`).
5. `answering.answer` asks the LM for the answer to each query; `answering.measure` scores it.
6. `evaluate.evaluate_rows` gets the record of each row (`records.record_of_run`), and with it all
   that the record needs: `run.Run.get` takes each value from memory, from disk or computes it.
7. `report/compare.py`: `comparison_of` makes the table and the page of the records.

The modules:

- `run`: `Run`, which gets a lazy value from memory, from disk or by computing it
- `setup`: `Setup`, a task under one configuration, and `open_run`
- `row_stages`: a row as lazy values: its metric, its answers, its examples
- `steps`: the steps of a method's `learn`, then vectors and retrieval texts
- `views`: the retrieval texts of examples; `rewriting`: those with skills, which an LM writes
  (Skill-KNN)
- `vectors`: the vectors of texts and of examples
- `learning`: the training of networks; `heads`: heads, which learn from outputs alone
- `choosing`: the chosen examples, and candidate sets
- `prompting`: the prompts of a task for an LM, and the work of reading them
- `scoring`: the LM's scores of candidate sets, and λ
- `fixed_examples`: one set of examples for all queries
- `ways`: how an LM answers: by log-probabilities of choices, by generation, or by generating a
  choice
- `answering`: predictions and metrics
- `usage`: the tokens of a row's prompts, for prices
- `evaluate`: the rows of a comparison, with their stages, their records and all else that tables show
- `plan`: what a run would compute, in LM tokens and minutes; `speed`: the speed of this machine;
  `minutes`: a comparison cut to fit a time limit
- `export`: a row as a selector
- `records`: the record of an evaluation
- `models`: LMs and encoders by name: where they run, and what they need; `config`: settings and
  scales
"""
