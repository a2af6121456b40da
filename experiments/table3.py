"""Table 3: compositional splits.

    python experiments/table3.py --tasks geoquery.template smcalflow_cs.0s --scale tiny --data-dir DATA

GeoQuery's template, length and TMCD splits, and SMCalFlow-CS: queries of one domain (0s), of two (0c), and of two
with a block of 8, 16 or 32 examples of two domains at the start of every prompt (8c, 16c, 32c). All tasks: --tasks
geoquery geoquery.template geoquery.tmcd geoquery.length smcalflow_cs.0s smcalflow_cs.0c smcalflow_cs.8c
smcalflow_cs.16c smcalflow_cs.32c.
"""

import sys

from drawing import points

from ceil_jax.cli.experiment import Experiment, ExperimentOptions
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.report.grid import Cell, Entry

ROWS = ("random", "bm25", "topk", "dpp", "epr", "ceil")


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    return [Entry(METHODS[method].label, config.task, Cell(config, method)) for method in ROWS]


EXPERIMENT = Experiment("table3", "Table 3: compositional splits", entries, points)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
