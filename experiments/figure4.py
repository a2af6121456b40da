"""Figure 4: ranks of the MAP set's examples among the nearest 800.

    python experiments/figure4.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

The rank by similarity to the query of every example that CEIL chooses from a shortlist of 800 (or
from the whole bank if that is smaller). Top-k would choose ranks 1 to K.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from harness.command import Experiment, ExperimentOptions
from harness.grid import Cell, Entry, Grid
from harness.inside import chosen_ranks
from harness.panels import panels
from harness.table import ExperimentTable

from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.plots import PALETTE
from ceil_jax.report.table import Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHORTLIST = 800
EDGES = (1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513, SHORTLIST + 1)


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    config = replace(config, shortlist=SHORTLIST)
    return [
        Entry("CEIL", config.task, Cell(config, "ceil")),
        Entry("DPP-MAP", config.task, Cell(config, "dpp")),
    ]


def with_ranks(grid: Grid, table: ExperimentTable) -> ExperimentTable:
    header = ["task", "method", "examples chosen", *(_name(i) for i in range(len(EDGES) - 1))]
    rows: list[list[Value]] = []
    for measurement in table.measured:
        cell = measurement.entry.cell.seeded(measurement.seeds[0])
        ranks = chosen_ranks(grid.open(cell), cell.method)
        bins = Counter(
            next(i for i in range(len(EDGES) - 1) if rank < EDGES[i + 1]) for rank in ranks
        )
        shares = [100 * bins[i] / len(ranks) for i in range(len(EDGES) - 1)]
        rows.append([measurement.entry.task, measurement.entry.row, len(ranks), *shares])
    return replace(table, sections=[Table(header, rows, "Share of the chosen examples by rank, %")])


def _name(i: int) -> str:
    low = EDGES[i]
    high = EDGES[i + 1] - 1
    return str(low) if low == high else f"{low}–{high}"


def draw(table: ExperimentTable) -> Figure:
    [ranks] = table.sections
    tasks = table.by_task()
    figure, axes = panels(len(tasks), 6.0, 4.0)
    for panel, task in zip(axes, tasks, strict=True):
        rows: list[Any] = [row for row in ranks.rows if row[0] == task]
        shares = {method: values for _, method, _, *values in rows}
        draw_ranks(panel, ranks.header[3:], shares)
        panel.set_title(task, fontsize="medium")
    return figure


def draw_ranks(axes: Axes, bins: Sequence[str], shares: Mapping[str, Sequence[float]]) -> None:
    """Draw a histogram for each method, side by side: the share (%) of its examples in each bin of ranks."""
    width = 0.8 / len(shares)
    for i, ((name, values), colour) in enumerate(zip(shares.items(), PALETTE, strict=False)):
        at = np.arange(len(bins)) + (i - (len(shares) - 1) / 2) * width
        axes.bar(at, values, width, color=colour, label=name)
    axes.set_xticks(range(len(bins)), bins, rotation=40, ha="right")
    axes.set_xlabel("rank by similarity to the query")
    axes.set_ylabel("share of the chosen examples, %")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize="x-small")


EXPERIMENT = Experiment("figure4", "Figure 4: ranks of the MAP set", entries, draw, with_ranks)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
