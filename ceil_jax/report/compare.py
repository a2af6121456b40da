"""Several methods on the same queries: a table with intervals, differences and costs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import Interval, Sample, bootstrap_interval, by_question, paired
from ceil_jax.pipeline.evaluate import Evaluation
from ceil_jax.pipeline.methods import METHODS, TRAINED, Method
from ceil_jax.pipeline.results_file import device, device_hours
from ceil_jax.pipeline.run import Run
from ceil_jax.report.table import Number, Span, Table, Value, signed
from ceil_jax.store.rows import Cost
from ceil_jax.tasks.example import Task


@dataclass(frozen=True)
class Row:
    """One method's row."""

    method: str
    label: str
    value: float
    """The metric, in percent."""
    interval: Interval
    """95 % bootstrap interval of the metric over resampled queries, in percent."""
    training_tokens: int
    """LM tokens read before the first query is answered: for training (EPR's included if CEIL starts from it), for
    tuning λ and for rewriting inputs as skills."""
    answering_tokens: int
    seconds: float
    """The time of all stages that the method needs."""
    examples: float
    """Mean number of examples that fitted into a prompt (#ICE)."""
    device_hours: float
    """`seconds` as GPU-hours, or core-hours without a GPU."""


@dataclass(frozen=True)
class Difference:
    """The difference of two methods on the same queries."""

    better: str
    worse: str
    interval: Interval
    """The difference in percentage points, with its 95 % interval."""


@dataclass(frozen=True)
class Comparison:
    """Methods on one task."""

    task: str
    metric: str
    lm: str
    queries: int
    asked: str
    """The number of queries in words, and of how many, if a limit was set."""
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    costs: dict[str, Cost]
    """The cost of each stage, in the order in which they ran."""
    evaluations: dict[str, Evaluation]
    parts: Table | None = None
    """The scores and differences on queries that stand in the bank and on the others, where there are both."""
    note: str = ""
    """A remark on the numbers, such as how many rewrites failed."""

    def table(self) -> Table:
        """Return a table of the methods, their scores and their costs."""
        return Table(
            ["method", "score", "95 % interval", "#ICE", *COST_COLUMNS],
            [
                [
                    *(row.label, row.value, Span(row.interval), row.examples),
                    *(row.training_tokens, row.answering_tokens, Number(row.seconds, 0)),
                    Number(row.device_hours, 2),
                ]
                for row in self.rows
            ],
        )

    def text(self) -> str:
        """Return the comparison for a terminal: scores, paired differences and the cost of every stage."""
        stages = [[stage, Number(cost.seconds), cost.tokens or None] for stage, cost in self.costs.items()]
        differences = [
            f"{one.better} − {one.worse}: {signed(one.interval)} points" for one in self.differences
        ]
        return "\n".join(
            [
                # the number of queries stands with every score: an accuracy without its n says little
                f"{self.task}: {self.metric} in percent on {self.asked}, {self.lm}",
                *("", self.table().text(), "", *differences),
                *(["", self.parts.text()] if self.parts else []),
                *("", Table(["stage", "seconds", "LM tokens"], stages).text()),
                *(["", self.note] if self.note else []),
            ]
        )

    def markdown(self) -> str:
        """Return the table of methods, and the one of parts if there is one, as Markdown."""
        return "\n".join(table.markdown() for table in (self.table(), self.parts) if table)

    def data(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            **{name: getattr(self, name) for name in ("task", "metric", "lm", "queries", "note")},
            "rows": [
                {
                    **{name: getattr(row, name) for name in ("method", "label", "value")},
                    "low": row.interval.low,
                    "high": row.interval.high,
                    "training_tokens": row.training_tokens,
                    "answering_tokens": row.answering_tokens,
                    "seconds": row.seconds,
                    "examples": row.examples,
                    "device_hours": row.device_hours,
                }
                for row in self.rows
            ],
            "differences": [
                {
                    "better": one.better,
                    "worse": one.worse,
                    "value": one.interval.mean,
                    "low": one.interval.low,
                    "high": one.interval.high,
                }
                for one in self.differences
            ],
            "parts": self.parts and self.parts.data(),
            "costs": {stage: {"seconds": c.seconds, "tokens": c.tokens} for stage, c in self.costs.items()},
        }

    def csv(self) -> str:
        """Return the table of methods for a program: a line for each method."""
        rows: list[list[Value]] = [
            [
                *(self.task, row.method, self.metric, self.lm, self.queries),
                *(Number(number, 3) for number in (row.value, row.interval.low, row.interval.high)),
                *(row.training_tokens, row.answering_tokens, Number(row.seconds)),
                *(Number(row.examples, 2), Number(row.device_hours, 3)),
            ]
            for row in self.rows
        ]
        return Table(_CSV_COLUMNS, rows).csv()


def labelled(label: str, remark: str) -> str:
    """Return a method's label, with a remark in brackets if there is one."""
    return f"{label} ({remark})" if remark else label


def compare(pipeline: Run, methods: Sequence[str]) -> Comparison:
    """Evaluate methods on the task's validation examples.

    Args:
        pipeline: the run.
        methods: rows of METHODS, in the order of the table.
    """
    evaluations = {method: pipeline.evaluate(method) for method in methods}
    costs = pipeline.costs
    rows = []
    for method, result in evaluations.items():
        needed = [cost for stage, cost in costs.items() if stage in pipeline.needed(method)]
        answering = costs[f"answering: {method}"].tokens
        seconds = sum(cost.seconds for cost in needed)
        rows.append(
            Row(
                method,
                labelled(pipeline.method(method).label, pipeline.kept(method)),
                100 * result.value,
                result.interval.percent(),
                sum(cost.tokens for cost in needed) - answering,
                answering,
                seconds,
                result.examples,
                device_hours(seconds, device()),
            )
        )
    labels = {row.method: row.label for row in rows}
    differences = tuple(
        Difference(labels[better], labels[worse], _difference(evaluations, better, worse, pipeline.task))
        for better, worse in _pairs(evaluations)
    )
    return Comparison(
        pipeline.task.name,
        pipeline.task.metric,
        pipeline.lm.name,
        len(pipeline.task.validation),
        pipeline.task.asked,
        tuple(rows),
        differences,
        dict(costs),
        evaluations,
        _parts(evaluations, labels, pipeline.task),
        "\n".join(_remarks(pipeline, [pipeline.method(method) for method in methods])),
    )


def _remarks(pipeline: Run, methods: Sequence[Method]) -> Iterator[str]:
    """Yield what a reader of the numbers has to know besides."""
    if any(method.encoder in TRAINED for method in methods):
        yield ONE_SEED.format(seed=pipeline.config.seed)
    if voting := pipeline.voting.text():
        yield voting
    if rewriting := pipeline.views.report(methods):
        yield rewriting


def _pairs(methods: Container[str]) -> list[tuple[str, str]]:
    """Return the methods whose differences are shown, those of the last rows of METHODS first."""
    rows = [name for name in METHODS if name in methods]
    return [(row, other) for row in reversed(rows) for other in METHODS[row].against if other in methods]


def _sample(found: Evaluation, task: Task, where: np.ndarray | slice) -> Sample:
    value = metric_named(task.metric).from_sums
    return by_question(Sample(found.statistics[where], value), found.overlap.question[where])


def _difference(
    evaluations: Mapping[str, Evaluation],
    better: str,
    worse: str,
    task: Task,
    where: np.ndarray | slice = slice(None),
) -> Interval:
    pair = paired(_sample(evaluations[better], task, where), _sample(evaluations[worse], task, where))
    return bootstrap_interval(*pair).percent()


def _parts(evaluations: Mapping[str, Evaluation], labels: Mapping[str, str], task: Task) -> Table | None:
    """Return the scores and the differences on each part of the queries; None where there are no parts."""
    parts = next(iter(evaluations.values())).overlap.parts() if evaluations else {}
    rows: list[list[Value]] = []
    for method, found in evaluations.items():
        values = [bootstrap_interval(*_sample(found, task, where)).percent() for where in parts.values()]
        rows.append([labels[method], *(value.mean for value in values)])
    for better, worse in _pairs(evaluations):
        less = [_difference(evaluations, better, worse, task, where) for where in parts.values()]
        rows.append([f"{labels[better]} − {labels[worse]}", *map(signed, less)])
    return Table(["queries whose", *parts], rows) if parts else None


ONE_SEED = (
    "Trained rows come from one seed of training (--seed {seed}). The intervals are over questions; what another "
    "seed or another processor would give is not in them."
)
"""A remark on what one seed leaves open."""

COST_COLUMNS = ("LM tokens to prepare", "LM tokens to answer", "seconds", "device hours")
"""The columns of costs in a table of methods; device hours are GPU-hours, or core-hours without a GPU."""

_CSV_COLUMNS = (
    *("task", "method", "metric", "lm", "n", "value", "low", "high"),
    *("training_tokens", "answering_tokens", "seconds", "examples", "device_hours"),
)
