"""The evidence: ways of choosing examples on many tasks, with enough queries and seeds to tell them apart.

    python experiments/evidence.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

CEIL is trained with `--ceil.train-context`; "CEIL, both encoders" also trains the encoder of the examples, as in the
paper. EPR + MAP is what CEIL's inference gives without CEIL's training. The settings that were run are in
docs/results.md.
"""

import sys
from dataclasses import replace

from drawing import points

from ceil_jax.cli.experiment import Experiment, ExperimentOptions
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.report.experiment_table import ExperimentTable
from ceil_jax.report.grid import Cell, Entry, Grid

ROWS = ("random", "bm25", "topk", "dpp", "epr", "epr_map", "ceil")
BASELINES = ("topk", "epr", "epr_map")


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    both = replace(config, ceil=replace(config.ceil, train_context="both"))
    found = [Entry(METHODS[row].label, config.task, Cell(config, row)) for row in ROWS]
    return [*found, Entry("CEIL, both encoders", config.task, Cell(both, "ceil"))]


def with_differences(_: Grid, table: ExperimentTable) -> ExperimentTable:
    labels = [METHODS[row].label for row in BASELINES]
    return replace(table, sections=[table.less(label, "method", f"Less {label}") for label in labels])


EXPERIMENT = Experiment(
    "evidence", "The evidence: ways of choosing examples", entries, points, with_differences
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
