"""Figures that several experiments share: a panel for each task of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.report.experiment_table import BASELINES, ExperimentTable
from ceil_jax.report.grid import Cell, Entry, Measured
from ceil_jax.report.plots import draw_lines, draw_points, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def points(table: ExperimentTable) -> Figure:
    """Draw every entry as a point with its interval, and the paper's number beside it."""
    tasks = table.by_task()
    most = max(map(len, tasks.values()))
    figure, axes = panels(len(tasks), 5.2, 1.6 + 0.36 * most)
    for panel, (task, members) in zip(axes, tasks.items(), strict=True):
        labels = [
            one.entry.row if one.entry.column == task else f"{one.entry.row}, {one.entry.column}"
            for one in members
        ]
        draw_points(
            panel,
            labels,
            [one.interval for one in members],
            [one.entry.paper for one in members],
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
) -> None:
    """Draw each row of a task's table as a line over a number of its entries, on a logarithmic axis.

    Args:
        axes: the panel.
        members: the task's entries.
        xlabel: the label of the horizontal axis.
        x: an entry's place on the horizontal axis.
        names: the rows of all panels, as for `draw_lines`.
    """
    series: dict[str, list[tuple[float, float, float, float]]] = {}
    for one in members:
        series.setdefault(one.entry.row, []).append((x(one), *one.interval))
    draw_lines(axes, series, xlabel, _metric(members), log=True, names=names)


def gains_of(
    axes: Axes,
    table: ExperimentTable,
    members: Sequence[Measured],
    baseline: str,
    xlabel: str,
    x: Callable[[Measured], Any],
    names: Sequence[str] = (),
) -> None:
    """Draw each row's difference to a baseline of the same configuration as a line over a number of its entries.

    Args:
        axes: the panel.
        table: the experiment's table, which has the baseline's entries.
        members: the task's entries.
        baseline: a key of `experiment_table.BASELINES`.
        xlabel: the label of the horizontal axis.
        x: an entry's place on the horizontal axis.
        names: the rows of all panels, as for `draw_lines`.
    """
    series: dict[str, list[tuple[float, float, float, float]]] = {}
    for one in members:
        gain = table.difference(one, baseline)
        if gain is not None:
            series.setdefault(one.entry.row, []).append((x(one), *gain))
    axes.axhline(0, color="grey", linewidth=1)
    ylabel = f"points of {members[0].metric} over {BASELINES[baseline]} (n = {members[0].queries})"
    draw_lines(axes, series, xlabel, ylabel, log=True, names=names)


def by_examples(config: RunConfig, methods: Sequence[str], counts: Sequence[int]) -> list[Entry]:
    """Return the entries of methods with different numbers of examples in a prompt.

    Args:
        config: the settings besides.
        methods: rows of METHODS.
        counts: the numbers of examples; a task with a smaller bank goes without.
    """
    return [
        Entry(
            METHODS[name].label,
            f"K = {count}",
            Cell(replace(config, shots=count), name),
            least_bank=count + 1,
        )
        for name in methods
        for count in counts
    ]


def _metric(members: Sequence[Measured]) -> str:
    return f"{members[0].metric}, % (n = {members[0].queries})"
