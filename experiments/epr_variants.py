"""EPR as this project, CEIL's released code and EPR's own authors train it.

    python experiments/epr_variants.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

- EPR: one encoder of queries and examples, which learns from both sides; the context text is the input.
- as in CEIL's released code: one encoder, without a gradient through the examples (--epr.train-context stopped).
- as its authors have it (Rubin et al. 2022): two encoders, and examples with their output (--epr.train-context both
  --context example).

All learn cosines, by which they also retrieve; the two originals learn and retrieve by raw dot products. CEIL stands
beside the first two; it starts from one encoder, so that there is none from the third.
"""

import sys
from dataclasses import replace

from drawing import points

from ceil_jax.cli.experiment import Experiment, ExperimentOptions
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.experiment_table import ExperimentTable
from ceil_jax.report.grid import Cell, Entry, Grid

OURS = "EPR"


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    stopped = replace(config, epr=replace(config.epr, train_context="stopped"))
    authors = replace(config, context="example", epr=replace(config.epr, train_context="both"))
    rows = {
        "dense top-k": Cell(config, "topk"),
        OURS: Cell(config, "epr"),
        "EPR as in CEIL's released code": Cell(stopped, "epr"),
        "EPR as its authors have it": Cell(authors, "epr"),
        "CEIL": Cell(config, "ceil"),
        "CEIL from EPR as in its released code": Cell(stopped, "ceil"),
    }
    return [Entry(row, config.task, cell) for row, cell in rows.items()]


def with_differences(_: Grid, table: ExperimentTable) -> ExperimentTable:
    return replace(table, sections=[table.less(OURS, "row", "Differences")])


EXPERIMENT = Experiment("epr_variants", "EPR in three ways", entries, points, with_differences)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
