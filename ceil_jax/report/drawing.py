"""Tables to figures, a panel a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ceil_jax.report.grid import Measured
from ceil_jax.report.plots import draw_lines, draw_points, panels
from ceil_jax.report.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def by_task(table: Table) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {}
    for one in table.measured:
        found.setdefault(one.entry.task, []).append(one)
    return found


def points(table: Table) -> Figure:
    """Every entry as a point with its interval, and the paper's."""
    tasks = by_task(table)
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
            f"{members[0].metric}, % (n = {members[0].queries})",
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
    """Rows as series over a number of theirs; `names` as for `draw_lines`."""
    series: dict[str, list[tuple[float, float, float, float]]] = {}
    for one in members:
        series.setdefault(one.entry.row, []).append((x(one), *one.interval))
    one = members[0]
    draw_lines(axes, series, xlabel, f"{one.metric}, % (n = {one.queries})", log=True, names=names)
