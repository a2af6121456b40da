"""Diagnosis of CEIL: where it gains, or which stage fails, in a few numbers for each task.

    python experiments/diagnosis.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

- Does the LM rank sets, or orders of examples? Kendall's τ between the scores of subsets and of the same subsets in
  another order; and the correlation r between an example's contribution in one half of a query's subsets and in the
  other half (below 1 even if scores were sums of contributions, because an example is in few subsets).
- What makes a good subset? τ with the similarity of its examples' outputs to the query's output, which only an oracle
  knows, and with the nearness of their inputs, which a retriever is given.
- Does training learn it? τ on held-out queries, before and after training.
- Does the LM score the MAP set higher than the top-k set? That is the training objective.
- Does the higher LM score predict which of two prompts is answered better?
- The upper bound: the metric of the best-scored subset of training queries, beside that of their top-k subset.
"""

import sys
from dataclasses import replace

from ceil_diagnosis import diagnose, lines
from drawing import points

from ceil_jax.cli.experiment import Experiment, ExperimentOptions
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.report.experiment_table import ExperimentTable
from ceil_jax.report.grid import Cell, Entry, Grid
from ceil_jax.report.table import Table

ROWS = ("random", "bm25", "topk", "epr", "ceil_topk", "ceil")


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    return [Entry(METHODS[method].label, config.task, Cell(config, method)) for method in ROWS]


def with_diagnosis(grid: Grid, table: ExperimentTable) -> ExperimentTable:
    found = {}
    for one in table.measured:
        if one.entry.cell.method == "ceil":
            # the run whose seed drew the subsets, whatever the seeds of the table
            config = one.entry.cell.config
            found[one.entry.task] = diagnose(grid.run_of(config), ROWS)
    note = "Diagnosis: the run whose seed is --seed, on the training signal that --signal names."
    header, *rows = lines(found)
    return replace(table, notes=[note], sections=[Table(header, rows, "Diagnosis")])


EXPERIMENT = Experiment(
    "diagnosis", "Where CEIL gains, or which stage fails", entries, points, with_diagnosis
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
