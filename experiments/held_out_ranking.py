"""Held-out ranking during training, a figure of our own.

    python experiments/held_out_ranking.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

Kendall's τ on held-out training queries between the model's scores of candidates or subsets and the LM's, from before
the first step to the last: a line each for EPR and CEIL, means over seeds, with the range over seeds.
"""

import sys
from dataclasses import replace

import numpy as np
from drawing import draw_lines

from ceil_jax.cli.experiment import Experiment, ExperimentOptions
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.experiment_table import ExperimentTable
from ceil_jax.report.grid import Cell, Entry, Grid
from ceil_jax.report.plots import panels
from ceil_jax.report.table import Number, Table
from ceil_jax.training.loop import QUALITY


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    return [Entry("EPR", config.task, Cell(config, "epr")), Entry("CEIL", config.task, Cell(config, "ceil"))]


def with_histories(grid: Grid, table: ExperimentTable) -> ExperimentTable:
    header = ["task", "method", "step", "share of the steps", "τ", "lowest seed", "highest seed"]
    lines = []
    for one in table.measured:
        histories = []
        for seed in one.seeds:
            pipeline = grid.run_of(one.entry.cell.seeded(seed).essential().config)
            histories.append(pipeline.trainer.history(one.entry.cell.method))
        last = histories[0][-1]["step"]
        for rows in zip(*histories, strict=True):
            taus = [row[QUALITY] for row in rows]
            step = rows[0]["step"]
            lines.append(
                [one.entry.task, one.entry.row, int(step)]
                + [Number(number, 3) for number in (step / last, float(np.mean(taus)), min(taus), max(taus))]
            )
    return replace(table, sections=[Table(header, lines, "Held-out ranking")])


def draw(table: ExperimentTable):
    [ranking] = table.sections
    tasks = table.by_task()
    figure, axes = panels(len(tasks))
    for panel, task in zip(axes, tasks, strict=True):
        series: dict[str, list[tuple[float, float, float, float]]] = {}
        for where, method, _, *numbers in ranking.rows:
            if where == task:
                series.setdefault(method, []).append(tuple(number.value for number in numbers))
        draw_lines(
            panel,
            series,
            "share of the training steps",
            "held-out Kendall's τ",
            ticks=(0, 0.25, 0.5, 0.75, 1),
        )
        panel.set_title(task, fontsize="medium")
    return figure


EXPERIMENT = Experiment("held_out_ranking", "Held-out ranking in training", entries, draw, with_histories)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
