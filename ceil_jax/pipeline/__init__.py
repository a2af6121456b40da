"""A run as a graph of kept values: a step is a function, and what it gives for some arguments is
computed once and kept. Such a lazy value is called a stage.

Start with `store.kept`, then `setup` and `row_stages`; most other modules hold the steps of one subject.

- `run`: `Run`, which gets a lazy value from memory, from disk or by computing it
- `setup`: `Setup`, a task under one configuration, and `open_run`
- `row_stages`: the stages of a row: its metric, its answers, its examples
- `method_stages`: the stages of a method: its encoders, their training, the vectors that they give,
  its fixed examples, λ
- `views`: the retrieval texts of examples; `rewriting`: those with skills, which an LM writes
  (Skill-KNN)
- `vectors`: the vectors of texts and of examples
- `learning`: training of heads and encoders
- `choosing`: the chosen examples, and candidate sets
- `prompting`: the prompts of a task for an LM, and the work of reading them
- `scoring`: the LM's scores of candidate sets, and λ
- `fixed_examples`: one set of examples for all queries
- `ways`: how an LM answers: by log-probabilities of choices, by generation, or by generating a
  choice
- `answering`: predictions and metrics
- `usage`: the tokens of a row's prompts, for prices
- `lineup`: the rows that are to be evaluated, with their stages
- `evaluate`: rows evaluated, with their cost and all else that tables show
- `plan`: what a run would compute, in LM tokens and minutes; `speed`: the speed of this machine;
  `minutes`: a comparison cut to fit a time limit
- `export`: a row as a selector
- `records`: the record of an evaluation
- `models`: LMs and encoders by name: where they run, and what they need; `config`: settings and
  scales
"""
