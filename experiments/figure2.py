"""Figure 2: transfer of a trained retriever to another LM or another task, as gains over top-k.

    python experiments/figure2.py --tasks geoquery movie_reviews --lms SmolLM2-135M-Instruct
    gemma-3-270m \
        --scale tiny --data-dir DATA

Heat maps of the points that CEIL has over top-k with the untrained encoder (the paper's TopK-BERT),
on the same queries and with the same LM: rows say where it was trained, columns where it is used.
Across LMs (the paper's left) there is a map for each task: trained on one LM's scores, answered by
another LM. Across tasks (its right) there is one map: the encoder of one task with the bank and
queries of another. The last row of each map is DPP-MAP with the untrained encoder. With one LM the
map across LMs is left out. The values themselves, and top-k's, are in the table.

Expected: half of CEIL's gain over DPP-MAP is left when another LM answers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from harness.command import Experiment, ExperimentOptions
from harness.grid import Cell, Entry, Measured
from harness.panels import panels
from harness.table import ExperimentTable

from ceil_jax.pipeline.config import RunConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS_TASKS = "trained on task"
ACROSS_LMS = "trained on LM"
ANSWERED = "answered by"
UNTRAINED = "not trained"


def entries(config: RunConfig, options: ExperimentOptions) -> list[Entry]:
    lms = options.lms or (config.lm,)
    all_entries = []
    for source in options.tasks or (config.task,):
        by = replace(config, task=source)
        all_entries.append(
            Entry(f"{ACROSS_TASKS} {source}", f"used on {config.task}", Cell(config, "ceil", (by,)))
        )
    all_entries += _untrained(f"used on {config.task}", config)
    if len(lms) > 1:
        runs = {lm: replace(config, lm=lm) for lm in lms}
        for source, by in runs.items():
            for target, to in runs.items():
                all_entries.append(
                    Entry(f"{ACROSS_LMS} {source}", f"{ANSWERED} {target}", Cell(to, "ceil", (by,)))
                )
        for target, to in runs.items():
            all_entries += _untrained(f"{ANSWERED} {target}", to)
    return all_entries


def _untrained(column: str, config: RunConfig) -> list[Entry]:
    return [
        Entry(UNTRAINED, column, Cell(config, "dpp")),
        Entry("top-k", column, Cell(config, "topk")),
    ]


def draw(table: ExperimentTable) -> Figure:
    maps: dict[str, list[Measured]] = {}
    for measurement in table.measured:
        across_lms = measurement.entry.column.startswith(ANSWERED)
        if measurement.entry.cell.method != "topk":
            maps.setdefault(
                f"{measurement.entry.task}, across LMs" if across_lms else "across tasks", []
            ).append(measurement)
    figure, axes = panels(len(maps), 5.6, 4.2)
    for panel, (title, members) in zip(axes, maps.items(), strict=True):
        rows = list(dict.fromkeys(measurement.entry.row for measurement in members))
        columns = list(dict.fromkeys(measurement.entry.column for measurement in members))
        values = np.full((len(rows), len(columns)), np.nan)
        for measurement in members:
            gain = table.difference(measurement, "topk")
            if gain is not None:
                values[
                    rows.index(measurement.entry.row), columns.index(measurement.entry.column)
                ] = gain.mean
        short = [
            row.removeprefix(f"{ACROSS_TASKS} ").removeprefix(f"{ACROSS_LMS} ") for row in rows
        ]
        draw_matrix(panel, short, columns, values, "points over top-k")
        panel.set_ylabel("trained on")
        panel.set_title(title, fontsize="medium")
    return figure


def draw_matrix(
    axes: Axes, rows: Sequence[str], columns: Sequence[str], values: np.ndarray, label: str
) -> None:
    """Draw a heat map with the number in each cell; NaN stays white.

    Args:
        axes: the panel.
        rows: labels of the rows.
        columns: labels of the columns.
        values: float [rows, columns].
        label: the label of the colour bar.
    """
    image = axes.imshow(np.ma.masked_invalid(values), cmap="cividis", aspect="auto")
    axes.figure.colorbar(image, ax=axes, label=label)
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "white" if value < middle else "black"
            axes.text(column, row, f"{value:+.1f}", ha="center", va="center", color=colour)
    axes.set_xticks(range(len(columns)), columns, rotation=20, ha="right")
    axes.set_yticks(range(len(rows)), rows)


EXPERIMENT = Experiment("figure2", "Figure 2: transfer of CEIL, as gains over top-k", entries, draw)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
