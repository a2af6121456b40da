"""Table 4: how CEIL's training subsets are sampled, and how many there are.

    python experiments/table4.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

RAND samples from the whole bank, TOP100 + RAND from the shortlist, TOP100 + k-DPP from the
shortlist by the conditional DPP (100 is --ceil.shortlist, less at small scales), with 10 or 50
subsets per query. The second table is the mean reciprocal rank of the top-k subset among the scored
ones: near 1, sampling finds nothing better.
"""

import sys
from dataclasses import replace
from typing import Literal

import numpy as np
from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry, Grid
from harness.table import ExperimentTable

from ceil_jax.methods.ceil import CEIL
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.report.table import Number, Table

SAMPLERS: dict[str, Literal["bank", "random", "k_dpp"]] = {
    "RAND": "bank",
    "TOP100 + RAND": "random",
    "TOP100 + k-DPP": "k_dpp",
}
SUBSETS = (10, 50)


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    return [
        Entry(
            row,
            f"{count} subsets",
            Cell(config.with_method(CEIL, sampler=sampler, subsets=count), "ceil"),
        )
        for row, sampler in SAMPLERS.items()
        for count in SUBSETS
    ]


def top_subset_mrr(scores: np.ndarray) -> float:
    """Return the mean reciprocal rank of the top-k set (set 0) among a query's scored sets, [Q, M];
    equal scores share the best rank."""
    rank = 1 + (scores > scores[:, :1]).sum(axis=1)
    return float((1 / rank).mean())


def with_mrr(grid: Grid, table: ExperimentTable) -> ExperimentTable:
    header = ["task", "candidates", "subsets", "queries", "MRR of the top-k subset"]
    rows = []
    for measurement in table.measured:
        run, setup = grid.open(measurement.entry.cell.seeded(measurement.seeds[0]))
        training = StepsOf(setup).learnt(setup.config.method(CEIL)).training
        assert training is not None, "CEIL learns"
        scores = run.get(training.scored).scores
        queries, count = scores.shape
        rows.append(
            [
                measurement.entry.task,
                measurement.entry.row,
                count,
                queries,
                Number(top_subset_mrr(scores), 3),
            ]
        )
    return replace(table, sections=[Table(header, rows, "Mean reciprocal rank")])


EXPERIMENT = Experiment("table4", "Table 4: candidates of CEIL", entries, points, with_mrr)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
