"""Figure 3: the number of in-context examples, and the trade-off λ.

    python experiments/figure3.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

Upper panels: the metric against K, the number of examples in a prompt (a token budget may cut them). Lower panels:
the metric against λ, of DPP-MAP on the untrained encoder and of CEIL, which is trained again for every λ on the same
scored subsets; top-k has no λ and is a horizontal line.
"""

import sys
from dataclasses import replace

from drawing import lines_of

from ceil_jax.cli.experiment import Experiment, ExperimentOptions
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.report.experiment_table import ExperimentTable
from ceil_jax.report.grid import Cell, Entry
from ceil_jax.report.plots import panels

EXAMPLES = (1, 2, 4, 8, 16, 32)
TRADE_OFFS = (0.001, 0.005, 0.01, 0.05, 0.1)
METHODS_BY_EXAMPLES = ("topk", "dpp", "epr", "ceil")


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    found = [
        Entry(METHODS[method].label, f"K = {shots}", Cell(replace(config, shots=shots), method))
        for method in METHODS_BY_EXAMPLES
        for shots in EXAMPLES
        if shots <= 2 * config.shots
    ]
    found += [
        Entry(METHODS[method].label, f"λ = {value:g}", Cell(_with_trade_off(config, value), method))
        for method in ("topk", "dpp", "ceil")
        for value in TRADE_OFFS
    ]
    return found


def _with_trade_off(config: RunConfig, value: float) -> RunConfig:
    return replace(config, trade_off=value, ceil=replace(config.ceil, trade_off=value))


def draw(table: ExperimentTable):
    tasks = table.by_task()
    figure, axes = panels(2 * len(tasks), columns=len(tasks))
    for above, below, (task, members) in zip(
        axes[: len(tasks)], axes[len(tasks) :], tasks.items(), strict=True
    ):
        examples = [one for one in members if one.entry.column.startswith("K")]
        trade_offs = [one for one in members if one.entry.column.startswith("λ")]
        names = [METHODS[method].label for method in METHODS_BY_EXAMPLES]
        lines_of(above, examples, "in-context examples K", lambda one: one.entry.cell.config.shots, names)
        lines_of(below, trade_offs, "λ", lambda one: one.entry.cell.config.trade_off, names)
        above.set_title(task, fontsize="medium")
    return figure


EXPERIMENT = Experiment("figure3", "Figure 3: number of examples, and λ", entries, draw)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
