"""GeoQuery at the size of CEIL's paper, except for the models: 50 candidates for EPR, 50 sets of 16
for CEIL, 50 examples in a prompt cut to the context, both encoders trained.

    python experiments/paper_size.py --task geoquery --scale paper --encoder all-MiniLM-L6-v2 \\
        --lm SmolLM2-135M-Instruct --data-dir DATA

It reads about 11 million LM tokens. CEIL has a row after 30 epochs and one after 120, each with its
nearest examples and with greedy MAP. The paper's numbers are those of Table 2, of GPT-Neo 2.7B.
"""

from __future__ import annotations

import sys

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry
from table2 import PAPER

from ceil_jax.methods.ceil import CEIL
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.tasks import TASKS

NAMES = ("random", "bm25", "topk", "dpp", "epr", "epr_map")
EPOCHS = (30, 120)


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    """Return a row for each way of choosing; those of CEIL for each number of epochs."""
    paper = TASKS[config.task].paper
    all_entries = [
        Entry(
            config.row(name).label,
            config.task,
            Cell(config, name),
            paper.get(PAPER.get(name, "")),
        )
        for name in NAMES
    ]
    for epochs in EPOCHS:
        trained = config.with_method(CEIL, epochs=epochs)
        for name in ("ceil_topk", "ceil"):
            label = f"{trained.row(name).label}, {epochs} epochs"
            all_entries.append(
                Entry(label, config.task, Cell(trained, name), paper.get(PAPER.get(name, "")))
            )
    return all_entries


EXPERIMENT = Experiment("paper_size", "GeoQuery at the paper's size", entries, points)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
