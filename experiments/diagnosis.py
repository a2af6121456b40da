"""Where CEIL gains, or which stage fails: a few numbers and a ceiling for each task.

    python experiments/diagnosis.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

- Is the LM's ranking of subsets one of sets? Kendall's τ with the same subsets' examples in another order; and
  whether what an example is worth to a query in one half of its subsets is what it is worth in the other (r; it stays
  below 1 even where scores are sums of worths, because an example stands in few subsets).
- What is a good subset? τ with how alike its examples' outputs are to the query's, which an oracle knows, and with
  how near their inputs are, which a retriever is given.
- Does training learn it? τ on held-out queries, before and after.
- Does the MAP set score better under the LM than the top-k set? That is what is trained.
- Does the LM's score say which of two prompts is answered better?
- The ceiling: the metric of the best-scored subset of training queries, beside that of their top-k subset.
"""

import sys
from dataclasses import replace

from drawing import points

from ceil_jax.cli.experiment import Experiment, ExperimentOptions
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.report.diagnosis import diagnose, lines
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
            # of the seed that subsets are drawn by, whatever the seeds of the table
            config = one.entry.cell.config
            found[one.entry.task] = diagnose(grid.pipeline(config), ROWS)
    note = "Diagnosis: of the run whose seed is --seed, on what --signal ranks by."
    header, *rows = lines(found)
    return replace(table, notes=[note], sections=[Table(header, rows, "Diagnosis")])


EXPERIMENT = Experiment(
    "diagnosis", "Where CEIL gains, or which stage fails", entries, points, with_diagnosis
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
