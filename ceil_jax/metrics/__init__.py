"""Predictions to numbers: the metrics of the tasks, and how sure a number is.

Which metric a task has is in `tasks/`; tables of numbers are in `report/`.

- `METRICS`, `metric_named`: all metrics by name
- `base`: `Metric`, what a metric is
- `match`: accuracy, exact match, SQuAD's exact match
- `bleu`: BLEU over characters and sacrebleu's
- `qdmr`: LF-EM of decomposed questions (Break)
- `sql`: execution accuracy, in a sandbox whose child process is `sql_worker`
- `bootstrap`: confidence intervals
"""

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
    """Return a metric.

    Args:
        name: a key of `METRICS`.

    Raises:
        UserError: there is no metric of that name.
    """
    if name not in METRICS:
        raise unknown_name("metric", name, METRICS)
    return METRICS[name]


__all__ = ["METRICS", "Metric", "PerExample", "metric_named"]
