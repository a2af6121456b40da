"""Several methods on the same queries: a table with intervals, differences and costs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import Interval, Sample, bootstrap_interval, paired
from ceil_jax.pipeline.evaluate import Evaluation
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.run import Pipeline
from ceil_jax.store.rows import Cost


@dataclass(frozen=True)
class Row:
    """One method's line."""

    method: str
    label: str
    value: float
    """The metric, in percent."""
    interval: Interval
    """95 % bootstrap interval of the metric over resampled queries, in percent."""
    training_tokens: int
    """LM tokens read before any query is answered: to train its encoder, EPR's included where CEIL starts
    from it, and to rewrite inputs as skills."""
    answering_tokens: int
    seconds: float
    """All stages: LM scoring and training where there is any, retrieving, answering."""


@dataclass(frozen=True)
class Difference:
    """How much better one method is than another on the same queries."""

    better: str
    worse: str
    interval: Interval
    """In percentage points."""


@dataclass(frozen=True)
class Comparison:
    """Methods on one task."""

    task: str
    metric: str
    lm: str
    queries: int
    asked: str
    """The same in words, and of how many, where they are not all of the task's."""
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    costs: dict[str, Cost]
    """By stage, in the order they ran."""
    evaluations: dict[str, Evaluation]
    note: str = ""
    """What a reader of the numbers should know."""

    def text(self) -> str:
        """The table for a terminal."""
        lines = aligned([_HEADER, *(_cells(row) for row in self.rows)])
        # `len(query)` stands with every number: an accuracy without its n says little
        head = f"{self.task}: {self.metric} in percent on {self.asked}, {self.lm}"
        out = [head, "", *lines, ""]
        out += [f"{d.better} − {d.worse}: {_signed(d.interval)} points" for d in self.differences]
        costs = [
            [stage, f"{cost.seconds:.1f} s", f"{cost.tokens:,}" if cost.tokens else ""]
            for stage, cost in self.costs.items()
        ]
        out += ["", *aligned([["stage", "seconds", "LM tokens"], *costs])]
        out += ["", self.note] if self.note else []
        return "\n".join(out)

    def markdown(self) -> str:
        """The table for a README."""
        lines = [_HEADER, ["---", *["---:"] * (len(_HEADER) - 1)], *(_cells(row) for row in self.rows)]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def csv(self) -> str:
        """The table for a program."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for row in self.rows:
            writer.writerow(
                [self.task, row.method, self.metric, self.lm, self.queries]
                + [f"{number:.3f}" for number in (row.value, row.interval.low, row.interval.high)]
                + [row.training_tokens, row.answering_tokens, f"{row.seconds:.1f}"]
            )
        return out.getvalue()


def compare(pipeline: Pipeline, methods: Sequence[str]) -> Comparison:
    """Evaluate the methods one after the other on the task's validation examples."""
    evaluations = {method: pipeline.evaluate(method) for method in methods}
    costs = pipeline.costs
    rows = []
    for method, result in evaluations.items():
        needed = [cost for stage, cost in costs.items() if stage in pipeline.needed(method)]
        answering = costs[f"answering: {method}"].tokens
        rows.append(
            Row(
                method,
                METHODS[method].label,
                100 * result.value,
                result.interval.percent(),
                sum(cost.tokens for cost in needed) - answering,
                answering,
                sum(cost.seconds for cost in needed),
            )
        )
    value = metric_named(pipeline.task.metric).from_sums
    samples = {method: Sample(found.statistics, value) for method, found in evaluations.items()}
    pairs = [("ceil", "epr"), ("ceil", "topk"), ("epr", "topk"), ("dpp", "topk")]
    differences = tuple(
        Difference(
            METHODS[better].label,
            METHODS[worse].label,
            bootstrap_interval(*paired(samples[better], samples[worse])).percent(),
        )
        for better, worse in pairs
        if better in samples and worse in samples
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
        pipeline.inputs.report(methods),
    )


_COLUMNS = [
    "task",
    "method",
    "metric",
    "lm",
    "n",
    "value",
    "low",
    "high",
    "training_tokens",
    "answering_tokens",
    "seconds",
]
_HEADER = ["method", "score", "95 % interval", "LM tokens to prepare", "LM tokens to answer", "seconds"]


def _cells(row: Row) -> list[str]:
    return [
        row.label,
        f"{row.value:.1f}",
        f"{row.interval.low:.1f} to {row.interval.high:.1f}",
        f"{row.training_tokens:,}",
        f"{row.answering_tokens:,}",
        f"{row.seconds:.0f}",
    ]


def _signed(interval: Interval) -> str:
    return f"{interval.mean:+.1f} ({interval.low:+.1f} to {interval.high:+.1f})"


def aligned(table: list[list[str]]) -> list[str]:
    """Columns of equal width: the first to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.rjust(w) if i else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in table
    ]
