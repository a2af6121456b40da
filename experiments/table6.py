"""Table 6: inference by top-k and by MAP, with every encoder.

    python experiments/table6.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

Rows: the untrained encoder (the paper's BERT), EPR's and CEIL's. Columns: the nearest examples, or
the greedy MAP set of the DPP. All six numbers are also in Table 2.
"""

import sys

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry

from ceil_jax.pipeline.config import RunConfig

ROWS = {"base encoder": ("topk", "dpp"), "EPR": ("epr", "epr_map"), "CEIL": ("ceil_topk", "ceil")}


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    return [
        Entry(row, inference, Cell(config, method))
        for row, methods in ROWS.items()
        for inference, method in zip(("top-k", "MAP"), methods, strict=True)
    ]


EXPERIMENT = Experiment("table6", "Table 6: top-k or MAP", entries, points)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
