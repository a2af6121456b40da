"""Table 8: score and latency by the size n of the shortlist from which MAP chooses.

    python experiments/table8.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

Rows as the paper's: top-k with the untrained encoder (its TopK-BERT), EPR, and CEIL with n from 50
to 800. Latencies are of all validation queries together with the bank's vectors in memory, split
into encoding the queries, shortlisting (of top-k and EPR: finding the K nearest), and greedy MAP:
medians of five runs after compilation. Shortlists larger than the bank are left out. Paper (SST-5
validation, 1,101 queries): 30 s for top-k and EPR; CEIL 30 s at n = 50, 36 s at n = 100, 118 s at n
= 800 (section B.1).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.command import Experiment, ExperimentOptions
from harness.drawing import draw_lines, lines_of
from harness.grid import Cell, Entry, Grid
from harness.inside import measure_latency
from harness.panels import panels
from harness.table import ExperimentTable

from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.table import Number, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORTLISTS = (50, 100, 200, 400, 800)


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    all_entries = [Entry(ROWS[name].label, "top-k", Cell(config, name)) for name in ("topk", "epr")]
    for n in SHORTLISTS:
        all_entries.append(
            Entry("CEIL", f"n = {n}", Cell(replace(config, shortlist=n), "ceil"), least_bank=n)
        )
    return all_entries


def with_latencies(grid: Grid, table: ExperimentTable) -> ExperimentTable:
    header = [
        "task",
        "method",
        "n",
        "queries",
        "bank",
        "encode, s",
        "shortlist, s",
        "MAP, s",
        "ms per query",
    ]
    rows = []
    for measurement in table.measured:
        cell = measurement.entry.cell
        seconds = measure_latency(grid.open(cell.seeded(measurement.seeds[0])), cell.method)
        total = 1000 * (seconds.encode + seconds.shortlist + seconds.map) / seconds.queries
        n = cell.config.shortlist if ROWS[cell.method].needs.shortlist else None
        rows.append(
            [measurement.entry.task, measurement.entry.row, n, seconds.queries, seconds.bank]
            + [
                Number(number, 3)
                for number in (seconds.encode, seconds.shortlist, seconds.map, total)
            ]
        )
    return replace(table, sections=[Table(header, rows, "Latency")])


def draw(table: ExperimentTable) -> Figure:
    tasks = table.by_task()
    figure, axes = panels(2 * len(tasks), columns=len(tasks))
    [latency] = table.sections
    for above, below, (task, members) in zip(
        axes[: len(tasks)], axes[len(tasks) :], tasks.items(), strict=True
    ):
        sizes = [measurement for measurement in members if measurement.entry.cell.method == "ceil"]
        lines_of(
            above, sizes, "shortlist n", lambda measurement: measurement.entry.cell.config.shortlist
        )
        timed: list[Any] = [row for row in latency.rows if row[0] == task and row[2] is not None]
        series = {
            name: [(row[2], each := 1000 * row[at].value / row[3], each, each) for row in timed]
            for name, at in (("encode", 5), ("shortlist", 6), ("MAP", 7))
        }
        draw_lines(below, series, "shortlist n", "ms per query")
        above.set_title(task, fontsize="medium")
    return figure


EXPERIMENT = Experiment("table8", "Table 8: size of the shortlist", entries, draw, with_latencies)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
