"""Figure 5: methods against the number of in-context examples.

    python experiments/figure5.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

Top-k of the untrained encoder (the paper's TopK-BERT), EPR and CEIL with 1 to 32 examples a prompt,
which the LM's context may cut (the column "examples" says how many fitted). The second table has what
appendix B.2 claims: CEIL with 4 examples less EPR with 32, and CEIL with 1 less top-k with 32, by
paired bootstrap. The paper gives no numbers, only the figure.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.command import Experiment, ExperimentOptions
from harness.drawing import by_examples, lines_of
from harness.grid import Entry, Grid
from harness.panels import panels
from harness.table import ExperimentTable

from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.table import Table, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = (1, 2, 4, 8, 16, 32)
NAMES = ("topk", "epr", "ceil")
CLAIMS = ((4, "epr"), (1, "topk"))
"""The paper's claims, as (number of CEIL's examples, the method with which it is compared at the
largest number of examples)."""


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    return by_examples(config, NAMES, EXAMPLES)


def with_claims(_: Grid, table: ExperimentTable) -> ExperimentTable:
    rows = []
    for task, members in table.by_task().items():
        measurements = {
            (measurement.entry.cell.method, measurement.entry.cell.config.shots): measurement
            for measurement in members
        }
        for fewer, method in CLAIMS:
            ours = measurements.get(("ceil", fewer))
            theirs = max((shots for name, shots in measurements if name == method), default=0)
            if ours is not None and theirs > fewer:
                label = ROWS[method].label
                less = signed(ours.minus(measurements[method, theirs]))
                rows.append([task, f"CEIL with {fewer}", f"{label} with {theirs}", less])
    header = ["task", "fewer examples", "more examples", "difference, points"]
    return replace(table, sections=[Table(header, rows, "Fewer examples of CEIL")])


def draw(table: ExperimentTable) -> Figure:
    tasks = table.by_task()
    figure, axes = panels(len(tasks))
    names = [ROWS[method].label for method in NAMES]
    for panel, (task, members) in zip(axes, tasks.items(), strict=True):
        lines_of(
            panel,
            members,
            "in-context examples K",
            lambda measurement: measurement.entry.cell.config.shots,
            names,
        )
        panel.set_title(task, fontsize="medium")
    return figure


EXPERIMENT = Experiment(
    "figure5", "Figure 5: number of in-context examples", entries, draw, with_claims
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
