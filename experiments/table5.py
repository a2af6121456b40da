"""Table 5: CEIL's initialisation and its loss.

    python experiments/table5.py --tasks geoquery movie_reviews --scale tiny --data-dir DATA

Rows: the untrained encoder (the paper's BERT) or EPR's weights. Columns: InfoNCE with the
best-scored subset as the positive, the pairwise margin loss, or (in no paper's table) DPO's
logistic loss of pairs. The runs of a row share the LM's scores of subsets.
"""

import sys

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry

from ceil_jax.methods.base import Method
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.untrained import Untrained
from ceil_jax.pipeline.config import RunConfig

STARTS: dict[str, Method] = {"base encoder": Untrained(), "EPR": EPR()}
LOSSES = {"InfoNCE": "info_nce", "pairwise": "pairwise", "logistic": "logistic"}


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    untrained = [Entry("base encoder", "no CEIL training, top-k", Cell(config, "topk"))]
    untrained += [Entry("EPR", "no CEIL training, top-k", Cell(config, "epr"))]
    return untrained + [
        Entry(
            start,
            loss,
            Cell(config.with_method(CEIL, start=method, loss=name), "ceil"),
        )
        for start, method in STARTS.items()
        for loss, name in LOSSES.items()
    ]


EXPERIMENT = Experiment("table5", "Table 5: initialisation and loss of CEIL", entries, points)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
