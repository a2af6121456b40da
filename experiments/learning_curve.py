"""Learning curves (not in a paper): EPR and CEIL with more training queries, starting untrained or
from free.

    python experiments/learning_curve.py --tasks geoquery.template --scale small --data-dir DATA
    python experiments/learning_curve.py --tasks sst5 --scale small --ceil.instances 1600
    --epr.start free

Each point is trained on 100, 400, 1,600 or 6,400 queries, up to --ceil.instances, or on the bank
where it is smaller; with --epr.start free from that start alone. A second table has what no LM is
asked for: how alike the chosen examples' outputs are to the query's: whether equal or, of programs,
by the F1 of their structures.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from harness.command import Experiment, ExperimentOptions
from harness.drawing import lines_of
from harness.grid import Cell, Entry, Grid, Measured
from harness.panels import panels
from harness.table import ExperimentTable

from ceil_jax.methods.base import Method
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.free import Free
from ceil_jax.methods.registry import ROWS
from ceil_jax.methods.untrained import Untrained
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.table import Table, Value
from ceil_jax.tasks.structures import structure_parser_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNTS = (100, 400, 1600, 6400)
UNTRAINED = ("topk", "free")


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    all_entries = [Entry(ROWS[name].label, "untrained", Cell(config, name)) for name in UNTRAINED]
    start = config.method(EPR).start
    starts: list[Method] = [start] if start.learns else [Untrained(), Free()]
    for fewer, count in pairwise((0, *COUNTS)):
        for start in starts if count <= config.method(CEIL).instances else []:
            trained = config.with_method(EPR, instances=count, start=start)
            trained = trained.with_method(CEIL, instances=count)
            all_entries += [
                Entry(
                    trained.row(name).title,
                    f"{count:,} queries",
                    Cell(trained, name),
                    least_bank=fewer + 1,
                )
                for name in ("epr", "ceil")
            ]
    return all_entries


def with_agreement(grid: Grid, table: ExperimentTable) -> ExperimentTable:
    body: list[list[Value]] = [
        [
            measurement.entry.task,
            measurement.entry.row,
            measurement.entry.column,
            100 * agreement(grid, measurement),
        ]
        for measurement in table.measured
    ]
    header = ["task", "row", "column", "alike, %"]
    return replace(
        table, sections=[Table(header, body, "Outputs of the chosen examples and of the query")]
    )


def agreement(grid: Grid, measured: Measured) -> float:
    """Return how well the outputs of the chosen examples agree with the query's output, from 0 to
    1, in the first seed's run: the mean F1 of their structures or, if they are not programs, the
    share of equal outputs."""
    cell = measured.entry.cell.seeded(measured.seeds[0])
    run, setup = grid.open(cell)
    task = grid.task(cell.config)
    parser = structure_parser_of(task.train) or (lambda output: frozenset([output]))
    bank = [parser(example.output) for example in task.train]
    values = []
    choice = run.get(row_stages.choice(setup, setup.row(cell.method)))
    for query, positions in zip(task.validation, choice.positions.tolist(), strict=True):
        parts = parser(query.output)
        others = [bank[position] for position in positions if position >= 0]
        values += [2 * len(parts & other) / max(1, len(parts) + len(other)) for other in others]
    return float(np.mean(values))


def draw(table: ExperimentTable) -> Figure:
    tasks = table.by_task()
    figure, axes = panels(len(tasks), 5.2, 4.0)
    for panel, (task, members) in zip(axes, tasks.items(), strict=True):
        trained = [
            measurement for measurement in members if measurement.entry.column != "untrained"
        ]
        for measurement in members:
            if measurement not in trained:
                panel.axhline(measurement.interval[0], linestyle=":", color="grey", linewidth=1)
                panel.annotate(
                    measurement.entry.row,
                    (1, measurement.interval[0]),
                    xycoords=("axes fraction", "data"),
                )
        if trained:
            lines_of(
                panel,
                trained,
                "training queries",
                lambda measurement: measurement.entry.cell.config.method(CEIL).instances,
            )
        panel.set_title(task, fontsize="medium")
    return figure


EXPERIMENT = Experiment(
    "learning_curve",
    "Learning curves: EPR and CEIL with more training queries",
    entries,
    draw,
    with_agreement,
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
