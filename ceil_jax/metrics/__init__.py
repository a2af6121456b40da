"""Metrics of the tasks, and confidence intervals for their values.

Which metric a task has is in `tasks/`; tables of numbers are in `report/`.

- `METRICS`, `register_metric`: the metrics by name
- `base`: `Metric`, the interface of a metric
- `match`: accuracy, exact match, the same number, SQuAD's exact match
- `by_class`: macro F1 and balanced accuracy of labels
- `bleu`: BLEU over characters
- `qdmr`: LF-EM of decomposed questions (Break)
- `sql`: execution accuracy, in a sandbox whose child process is `sql_worker`
- `bootstrap`: confidence intervals
"""

from __future__ import annotations

from collections.abc import Callable

from ceil_jax.metrics.base import Metric, PerExample
from ceil_jax.metrics.bleu import CharBleu
from ceil_jax.metrics.by_class import BalancedAccuracy, MacroF1
from ceil_jax.metrics.match import accuracy, exact_match, number_match, squad_em
from ceil_jax.metrics.qdmr import lf_em
from ceil_jax.metrics.sql import SqlExecution
from ceil_jax.registry import Registry
from ceil_jax.tasks.example import Example

METRICS: Registry[Metric] = Registry("metric")


def register_metric(
    name: str, metric: Metric | Callable[[str, Example], float], *, replace: bool = False
) -> None:
    """Register a metric under a name for tasks, `--metric` and `metric=…`.

    It is a Metric, or a function of a prediction and its example with a value in [0, 1], whose mean
    is reported.

    Raises:
        UserError: another metric has the name, and `replace` is false.
    """
    if not isinstance(metric, Metric):
        metric = PerExample(metric)
    METRICS.register(name, metric, replace=replace)


register_metric("accuracy", accuracy)
register_metric("macro_f1", MacroF1())
register_metric("balanced_accuracy", BalancedAccuracy())
register_metric("exact_match", exact_match)
register_metric("number_match", number_match)
register_metric("squad_em", squad_em)
register_metric("char_bleu", CharBleu())
register_metric("lf_em", lf_em)
register_metric("sql_execution", SqlExecution())

__all__ = ["METRICS", "Metric", "PerExample", "register_metric"]
