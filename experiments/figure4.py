"""Figure 4: which ranks the MAP set takes from the nearest 800.

    python experiments/figure4.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

Of every example that CEIL chooses with a shortlist of 800 (or the whole bank, where that is smaller): its rank by
similarity to the query. Top-k would take ranks 1 to K alone.
"""

import sys
from collections import Counter
from dataclasses import replace

from ceil_jax.cli.experiment import Experiment, Options
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.drawing import by_task
from ceil_jax.report.grid import Cell, Entry, Grid
from ceil_jax.report.latency import chosen_ranks
from ceil_jax.report.plots import draw_ranks, panels
from ceil_jax.report.tables import Table

SHORTLIST = 800
EDGES = (1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513, SHORTLIST + 1)


def entries(config: RunConfig, _: Options) -> list[Entry]:
    config = replace(config, shortlist=SHORTLIST)
    return [
        Entry("CEIL", config.task, Cell(config, "ceil")),
        Entry("DPP-MAP", config.task, Cell(config, "dpp")),
    ]


def with_ranks(grid: Grid, table: Table) -> Table:
    lines = [["task", "method", "examples chosen", *(_name(i) for i in range(len(EDGES) - 1))]]
    for one in table.measured:
        cell = one.entry.cell.seeded(one.seeds[0]).essential()
        ranks = chosen_ranks(grid.pipeline(cell.config), cell.method)
        bins = Counter(next(i for i in range(len(EDGES) - 1) if rank < EDGES[i + 1]) for rank in ranks)
        shares = [f"{100 * bins[i] / len(ranks):.1f}" for i in range(len(EDGES) - 1)]
        lines.append([one.entry.task, one.entry.row, str(len(ranks)), *shares])
    return replace(table, sections=[("Share of the chosen examples by rank, %", lines)])


def _name(i: int) -> str:
    low, high = EDGES[i], EDGES[i + 1] - 1
    return str(low) if low == high else f"{low}–{high}"


def draw(table: Table):
    [(_, (header, *lines))] = table.sections
    tasks = by_task(table)
    figure, axes = panels(len(tasks), 6.0, 4.0)
    for panel, task in zip(axes, tasks, strict=True):
        shares = {line[1]: [float(share) for share in line[3:]] for line in lines if line[0] == task}
        draw_ranks(panel, header[3:], shares)
        panel.set_title(task, fontsize="medium")
    return figure


EXPERIMENT = Experiment("figure4", "Figure 4: ranks of the MAP set", entries, draw, with_ranks)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
