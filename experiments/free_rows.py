"""Supervision without an LM (not in a paper): what a bank's own outputs are worth, compared with
the nearest neighbours.

    python experiments/free_rows.py --tasks sst5 geoquery.template --scale small --limit 600 --data-dir DATA
    python experiments/free_rows.py --tasks geoquery.template --scale small --epr.start free --method epr ceil
    python experiments/free_rows.py --tasks geoquery.template --scale small --epr.candidates 40 --method epr

Rows that do not apply to a task are left out of it. With `--epr.start free`, EPR's candidates come
from the free row's shortlists, and its encoder takes over that row's cosines; CEIL starts from EPR.
"""

import sys

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry

from ceil_jax.methods.epr import EPR
from ceil_jax.methods.registry import ROWS, applicable
from ceil_jax.pipeline.config import SCALES, RunConfig
from ceil_jax.tasks.load import load_task

NAMES = (
    "majority",
    "classifier",
    "copied",
    "topk",
    "dpp",
    "tst",
    "free",
    "free_map",
    "epr",
    "epr_map",
    "ceil",
)


def entries(config: RunConfig, options: ExperimentOptions) -> list[Entry]:
    """Return a row for each method that applies to the task; methods that learn from the LM are
    left out unless asked for."""
    task = load_task(config.task, config.data_dir, limit=2)
    # with more candidates EPR reads as many LM tokens as CEIL: the row at an equal price
    candidates = config.method(EPR).candidates
    usual = candidates == SCALES["small"].method(EPR).candidates
    more = "" if usual else f", {candidates} candidates"
    wanted = [
        name
        for name in NAMES
        if name in ROWS
        and (name in options.method or not (options.method or ROWS[name].learns_from_lm))
    ]
    return [
        Entry(row.title + (more if row.learns_from_lm else ""), config.task, Cell(config, row.name))
        for row in applicable(task, [config.row(name) for name in wanted]).rows
    ]


EXPERIMENT = Experiment("free_rows", "Supervision without an LM", entries, points)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
