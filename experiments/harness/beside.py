"""Records of rows that are no row of `compare`, made from one that is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ceil_jax.metrics import METRICS
from ceil_jax.report.runs import Runs
from ceil_jax.store.cost import Cost
from harness.results_file import Published

SETTINGS = ("encoder", "shots", "order", "token_budget", "fit")
"""What the record of another row says of the configuration."""


def beside(
    base: Published, row: str, statistics: np.ndarray, cost: Cost, examples: float = 0.0
) -> Published:
    """Return the record of other answers to the queries of a record.

    Args:
        base: a record with statistics, of the same queries, bank, metric and LM.
        row: the name of the other row.
        statistics: what the metric is computed from, float [N, s].
        cost: of these answers, and of all that they need.
        examples: mean number of examples in a prompt.
    """
    metric = METRICS[base.metric]
    value = 100 * float(metric.from_sums(statistics.sum(axis=0), len(statistics)))
    record = replace(
        base,
        row=row,
        method=row,
        value=value,
        statistics=statistics,
        cost=cost,
        answering=cost,
        examples=examples,
        config={name: base.config[name] for name in SETTINGS if name in base.config},
    )
    interval = Runs([record]).interval
    return replace(record, low=interval.low, high=interval.high)
