"""An inner layer of the encoder: the nearest examples by the mean of its tokens, beside those by the
encoder itself.

    python experiments/layers.py --tasks mtop geoquery.template nl2bash --scale small --limit 200 \\
        --data-dir DATA
    python experiments/layers.py --tasks cogs.ps --scale small --limit 200 --bank-limit 1000 \\
        --data-dir DATA

The layer was fixed before the first answer (`NOTES.md`, "Bets"): 3 of the 6 of all-MiniLM-L6-v2.
`--encoders` names others, such as inner_layers:layer_5.
"""

import sys
from dataclasses import replace

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry

from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline.config import RunConfig


def entries(config: RunConfig, options: ExperimentOptions) -> list[Entry]:
    """Return the nearest examples by the encoder of --encoder, and by each of --encoders."""
    label = ROWS["topk"].label
    others = [
        Entry(f"{label}, {name}", config.task, Cell(replace(config, encoder=name), "topk"))
        for name in options.encoders
    ]
    return [*others, Entry(label, config.task, Cell(config, "topk"))]


EXPERIMENT = Experiment(
    "layers",
    "An inner layer of the encoder",
    entries,
    points,
    options=ExperimentOptions(encoders=("inner_layers:layer_3",)),
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
