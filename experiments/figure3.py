"""Figure 3: the number of in-context examples, and the trade-off λ, as gains over EPR.

    python experiments/figure3.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

Upper panels (the paper's left): points of CEIL, EPR + MAP, DPP-MAP and top-k over EPR with as many
examples K in a prompt; a token budget may cut them. Lower panels (its right): points over EPR
against λ, of DPP-MAP on the untrained encoder, of EPR + MAP, and of CEIL, which is trained again
for every λ on the same scored subsets. EPR has no λ. The paper draws CEIL alone, one line a task.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.command import Experiment, ExperimentOptions
from harness.drawing import by_examples, lines_of
from harness.grid import Cell, Entry
from harness.panels import panels
from harness.table import ExperimentTable

from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline.config import RunConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = (1, 2, 4, 8, 16, 32)
TRADE_OFFS = (0.001, 0.005, 0.01, 0.05, 0.1)
METHODS_BY_EXAMPLES = ("topk", "dpp", "epr", "epr_map", "ceil")
METHODS_BY_TRADE_OFF = ("dpp", "epr_map", "ceil")


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    counts = [shots for shots in EXAMPLES if shots <= 2 * config.shots]
    all_entries = by_examples(config, METHODS_BY_EXAMPLES, counts)
    all_entries.append(Entry(ROWS["epr"].label, "without λ", Cell(config, "epr")))
    return all_entries + [
        Entry(ROWS[method].label, f"λ = {value:g}", Cell(_with_trade_off(config, value), method))
        for method in METHODS_BY_TRADE_OFF
        for value in TRADE_OFFS
    ]


def _with_trade_off(config: RunConfig, value: float) -> RunConfig:
    return replace(config, trade_off=value).with_method(CEIL, trade_off=value)


def draw(table: ExperimentTable) -> Figure:
    tasks = table.by_task()
    figure, axes = panels(2 * len(tasks), columns=len(tasks))
    names = [ROWS[method].label for method in METHODS_BY_EXAMPLES]
    for above, below, (task, members) in zip(
        axes[: len(tasks)], axes[len(tasks) :], tasks.items(), strict=True
    ):
        examples = [
            measurement for measurement in members if measurement.entry.column.startswith("K")
        ]
        trade_offs = [
            measurement for measurement in members if measurement.entry.column.startswith("λ")
        ]
        less = table, "epr"
        lines_of(
            above,
            examples,
            "in-context examples K",
            lambda measurement: measurement.entry.cell.config.shots,
            names,
            less,
        )
        lines_of(
            below,
            trade_offs,
            "λ",
            lambda measurement: measurement.entry.cell.config.trade_off,
            names,
            less,
        )
        above.set_title(task, fontsize="medium")
    return figure


EXPERIMENT = Experiment(
    "figure3", "Figure 3: number of examples, and λ, as gains over EPR", entries, draw
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
