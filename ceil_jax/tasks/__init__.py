"""Data sets: examples, prompt templates, tasks, and the readers of files and the hub.

Data frames are read too.

How predictions are scored is in `metrics/`; prompts under a token budget are put together in
`lm/prompts`.

- `example`: `Example`, `Template` and `Task`, which every other subpackage uses
- `bank`: the examples of a run with keys: the bank, queries, queries taken from the bank
- `spec`: `TaskSpec`, the entry of a named task, and the helpers that read a row's fields
- `families/`: the entries, one module a family of data sets
- `registry`: `TASKS`, the registered tasks by name, and `register_task`
- `load`: `load_task`, a named task, from files or the hub; `own_file`: `load_file`, a task of the
  user's own table
- `tables`: what goes in: the one reader of files, frames and lists of rows, and its one message for
  everything else
- `checks`: every check that protects a run from its data, in one list
- `rows`: a row to an example; `cells`: one cell as text, and comparing it with a filter's value
- `assets`: weights and texts that install from the Python package index, checked and cached
- `identity`: when two texts are the same (`question_key`); `words`: which queries are also in the
bank
- `labels`: whether outputs are labels, whatever the metric; `written`: the default stop string and
  length of a generated answer
- `conversations`: examples that keep all messages of a conversation
- `structures`: the names and edges of outputs that are programs, and which tasks have such outputs
- `sql_text`: a SQL query as tokens: whether it orders its rows, and how it is normalised
- `draws`: seeded draws: a sample of a list, and a text's random generator
"""

from ceil_jax.tasks.example import Example, Task, Template
from ceil_jax.tasks.registry import TASKS, register_task
from ceil_jax.tasks.spec import FieldError, Hub, Row, TaskSpec

__all__ = [
    "TASKS",
    "Example",
    "FieldError",
    "Hub",
    "Row",
    "Task",
    "TaskSpec",
    "Template",
    "register_task",
]
