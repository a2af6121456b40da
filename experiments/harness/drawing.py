"""Figures that several experiments share: a panel for each task of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.plots import MARKERS, PALETTE, draw_points
from harness.grid import Cell, Entry, Measured
from harness.panels import panels
from harness.table import BASELINES, ExperimentTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def points(table: ExperimentTable) -> Figure:
    """Draw every entry as a point with its interval, and the paper's number next to it."""
    tasks = table.by_task()
    most = max(map(len, tasks.values()))
    figure, axes = panels(len(tasks), 5.2, 1.6 + 0.36 * most)
    for panel, (task, members) in zip(axes, tasks.items(), strict=True):
        labels = [
            measurement.entry.row
            if measurement.entry.column == task
            else f"{measurement.entry.row}, {measurement.entry.column}"
            for measurement in members
        ]
        draw_points(
            panel,
            labels,
            [measurement.interval for measurement in members],
            [measurement.entry.paper for measurement in members],
            _metric(members),
        )
        panel.set_title(task, fontsize="medium")
    return figure


def lines_of(
    axes: Axes,
    members: Sequence[Measured],
    xlabel: str,
    x: Callable[[Measured], Any],
    names: Sequence[str] = (),
    less: tuple[ExperimentTable, str] | None = None,
) -> None:
    """Draw each row of a task's table as a line over a number of its entries, on a logarithmic
    axis.

    Args:
        axes: the panel.
        members: the task's entries; those without a value are left out.
        xlabel: the label of the horizontal axis.
        x: an entry's place on the horizontal axis.
        names: the rows of all panels, as for `draw_lines`.
        less: the table and a key of `BASELINES`, whose entry of the same configuration is
            subtracted from each.
    """
    series: dict[str, list[tuple[float, float, float, float]]] = {}
    for measurement in members:
        value = measurement.interval if less is None else less[0].difference(measurement, less[1])
        if value is not None:
            series.setdefault(measurement.entry.row, []).append((x(measurement), *value))
    ylabel = _metric(members)
    if less is not None:
        axes.axhline(0, color="grey", linewidth=1)
        ylabel = (
            f"points of {members[0].record.metric} over {BASELINES[less[1]]} (n = "
            f"{members[0].queries})"
        )
    draw_lines(axes, series, xlabel, ylabel, names=names)


def draw_lines(
    axes: Axes,
    series: Mapping[str, Sequence[tuple[float, float, float, float]]],
    xlabel: str,
    ylabel: str,
    names: Sequence[str] = (),
) -> None:
    """Draw lines of different colours and markers over a logarithmic axis, with their intervals as
    bands.

    Args:
        axes: the panel.
        series: name → points (x, value, low, high).
        xlabel: the label of the horizontal axis.
        ylabel: the label of the vertical axis.
        names: the series of all panels of a figure, so that each looks the same in every panel.
    """
    styles = dict(zip(names or series, cycle(zip(PALETTE, MARKERS, strict=True)), strict=False))
    for name, points in series.items():
        colour, marker = styles[name]
        x, value, low, high = map(np.array, zip(*sorted(points), strict=True))
        axes.plot(x, value, marker=marker, color=colour, label=name, markersize=5)
        axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
    axes.set_xscale("log")
    ticks = sorted({point[0] for points in series.values() for point in points})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small")


def by_examples(config: RunConfig, methods: Sequence[str], counts: Sequence[int]) -> list[Entry]:
    """Return the entries of methods with different numbers of examples in a prompt.

    Args:
        config: the settings besides.
        methods: rows of ROWS.
        counts: the numbers of examples; a task with a smaller bank goes without.
    """
    return [
        Entry(
            ROWS[name].label,
            f"K = {count}",
            Cell(replace(config, shots=count), name),
            least_bank=count + 1,
        )
        for name in methods
        for count in counts
    ]


def _metric(members: Sequence[Measured]) -> str:
    return f"{members[0].record.metric}, % (n = {members[0].queries})"
