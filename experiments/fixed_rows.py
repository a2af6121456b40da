"""Prompts that begin with the same examples for every query (not in a paper), compared with random
and nearest examples.

    python experiments/fixed_rows.py --tasks sst5 movie_reviews mrpc qnli geoquery mtop.intents \\
        --plugin intents --scale small --limit 400 --seeds 0 1 2 --data-dir DATA

`fixed` and `fixed_near` score sets of examples on held-back rows of the bank; the tokens of a record
hold these and those of the answers. A row that does not apply to a task is left out of it.
"""

import sys

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry

from ceil_jax.methods.registry import applicable
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.tasks.load import load_task

NAMES = ("classifier", "zero", "random", "topk", "free", "fixed", "fixed_near")


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    """Return a row for each of NAMES that applies to the task."""
    task = load_task(config.task, config.data_dir, limit=2)
    rows = applicable(task, [config.row(name) for name in NAMES]).rows
    return [Entry(row.title, config.task, Cell(config, row.name)) for row in rows]


EXPERIMENT = Experiment("fixed_rows", "Fixed prompts", entries, points)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
