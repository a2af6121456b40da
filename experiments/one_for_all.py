"""One retriever for all tasks: CEIL trained on the scores of all tasks, compared with one CEIL per task.

    python experiments/one_for_all.py --tasks geoquery movie_reviews mrpc --scale tiny --data-dir DATA

Each task keeps its own bank and queries. The encoders are trained on its own scores, on those of all tasks, on those
of all other tasks (so that the task is unseen), or not at all. The LM scores nothing twice.

Expected: within a point of the task's own retriever, and half of its gain on an unseen task.
"""

import sys
from dataclasses import replace

from drawing import points

from ceil_jax.cli.experiment import Experiment, ExperimentOptions
from ceil_jax.errors import UserError
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.grid import Cell, Entry


def entries(config: RunConfig, options: ExperimentOptions) -> list[Entry]:
    everything = tuple(replace(config, task=task) for task in options.tasks)
    others = tuple(one for one in everything if one.task != config.task)
    if not others:
        raise UserError("--tasks: name at least two, to train on together")
    rows = {
        "itself": Cell(config, "ceil"),
        "all tasks": Cell(config, "ceil", everything),
        "all but this one": Cell(config, "ceil", others),
        "nothing": Cell(config, "dpp"),
    }
    return [Entry(f"trained on {row}", config.task, cell) for row, cell in rows.items()]


EXPERIMENT = Experiment("one_for_all", "One retriever for all tasks", entries, points)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
