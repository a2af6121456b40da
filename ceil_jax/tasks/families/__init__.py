"""The data sets of the papers.

One module for each family of similar tasks, one `TaskSpec` for each task.

- `sentiment`: a sentence to a grade of sentiment (SST-5, movie reviews)
- `pairs`: two sentences to a short answer (MRPC, MNLI, QNLI)
- `questions`: a question with options of its own (CommonsenseQA, SWAG, HellaSwag) or several
  answers (WebQuestions)
- `parsing`: an utterance to a program (GeoQuery, NL2Bash, Break, MTOP, SMCalFlow, SMCalFlow-CS)
- `sql`: a question over a database to SQL (Spider, Dr.Spider, KaggleDBQA)
- `cogs`: a sentence to a logical form (COGS), written as a compact function call

A new task is one entry in the most similar family; see docs/new_task.md.
"""
