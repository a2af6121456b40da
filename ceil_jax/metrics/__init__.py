"""Predictions to numbers."""

from __future__ import annotations

from ceil_jax.errors import unknown_name
from ceil_jax.metrics.base import Metric, PerExample
from ceil_jax.metrics.bleu import Bleu, CharBleu
from ceil_jax.metrics.match import accuracy, exact_match, squad_em
from ceil_jax.metrics.qdmr import lf_em
from ceil_jax.metrics.sql import SqlExecution

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        PerExample("accuracy", accuracy),
        PerExample("exact_match", exact_match),
        PerExample("squad_em", squad_em),
        CharBleu(),
        Bleu(),
        PerExample("lf_em", lf_em),
        SqlExecution(),
    )
}


def metric_named(name: str) -> Metric:
    """The metric of that name.

    Raises:
        UserError: no such metric.
    """
    if name not in METRICS:
        raise unknown_name("metric", name, METRICS)
    return METRICS[name]


__all__ = ["METRICS", "Metric", "PerExample", "metric_named"]
