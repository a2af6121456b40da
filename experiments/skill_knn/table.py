"""Skill-KNN beside its peers: methods that draw or shuffle are repeated, and what was selected is measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics.bootstrap import Interval, bootstrap_interval
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.evaluate import Evaluation
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.run import Pipeline
from ceil_jax.report.compare import aligned
from ceil_jax.report.tables import markdown_table
from ceil_jax.skills.sketches import SKETCHES
from ceil_jax.tasks.example import Task
from skill_knn.analysis import Selected, mean_selected, selected


class Score(NamedTuple):
    """A metric over repeats, in percent."""

    mean: float
    sd: float
    """Between repeats, n − 1 in the denominator; 0 for one."""
    interval: Interval
    """95 % bootstrap over queries, of each query's mean over repeats."""


@dataclass(frozen=True)
class Row:
    """One method on one task."""

    method: str
    label: str
    repeats: int
    score: Score | None
    """None where nothing was answered."""
    selected: Selected


@dataclass(frozen=True)
class SkillTable:
    """Methods on one task."""

    task: Task
    lm: str
    shots: int
    encoder: str
    answered: bool
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    """How many rewrites failed, and what rewriting took."""

    def header(self) -> list[str]:
        """Column titles."""
        scored = [f"{self.task.metric} %", "± sd", "95 % interval"] if self.answered else []
        return ["method", "repeats", *scored, *(_MEASURES[name] for name in self._measured)]

    def cells(self) -> list[list[str]]:
        """A line a method."""
        lines = []
        for row in self.rows:
            line = [row.label, str(row.repeats) if row.repeats > 1 else ""]
            if row.score is not None:
                sd = f"{row.score.sd:.1f}" if row.repeats > 1 else ""
                line += [f"{row.score.mean:.1f}", sd]
                line += [f"{row.score.interval.low:.1f} to {row.score.interval.high:.1f}"]
            lines.append(line + [f"{getattr(row.selected, name):.1f}" for name in self._measured])
        return lines

    @property
    def _measured(self) -> list[str]:
        return [
            name for name in _MEASURES if not all(np.isnan(getattr(row.selected, name)) for row in self.rows)
        ]

    def title(self) -> str:
        """What the table is of."""
        return (
            f"{self.task.name}: {len(self.task.validation):,} queries, bank of {len(self.task.train):,}, "
            f"{self.shots} examples; {self.encoder} compares"
            + (f", {self.lm} answers" if self.answered else "")
        )

    def markdown(self) -> str:
        """Title, table and notes."""
        table = "\n".join(markdown_table([self.header(), *self.cells()]))
        return "\n\n".join([self.title(), table, *self.notes]) + "\n"

    def text(self) -> str:
        """The same for a terminal."""
        return "\n".join([self.title(), "", *aligned([self.header(), *self.cells()]), "", *self.notes])

    def points(self) -> tuple[list[str], list[tuple[float, float, float]], str]:
        """For a figure: labels, (value, low, high), and what the values are."""
        labels = [row.label for row in self.rows]
        if not self.answered:
            overlaps = [row.selected.overlap for row in self.rows]
            return labels, [(value, value, value) for value in overlaps], _MEASURES["overlap"]
        scores = [row.score for row in self.rows if row.score is not None]
        values = [(score.mean, score.interval.low, score.interval.high) for score in scores]
        return labels, values, f"{self.task.metric}, % (n = {len(self.task.validation)})"


def csv_of(tables: Sequence[SkillTable]) -> str:
    """One line a task and method, every measure."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            *("task", "lm", "encoder", "shots", "bank", "queries", "method", "repeats"),
            *("metric", "mean", "sd", "low", "high", *_MEASURES),
        ]
    )
    pairs = [(table, row) for table in tables for row in table.rows]
    for table, row in pairs:
        task, score = table.task, row.score
        numbers = (score.mean, score.sd, score.interval.low, score.interval.high) if score else ()
        writer.writerow(
            [task.name, table.lm, table.encoder, table.shots, len(task.train), len(task.validation)]
            + [row.method, row.repeats, task.metric if score else ""]
            + ([f"{number:.3f}" for number in numbers] or [""] * 4)
            + [f"{getattr(row.selected, name):.3f}" for name in _MEASURES]
        )
    return out.getvalue()


_MEASURES = {
    "overlap": "sketch overlap %",
    "databases": "databases",
    "tables": "tables in SQL",
    "length": "answer length",
}


def compare_skills(
    pipeline: Pipeline, methods: Sequence[str], *, seeds: int = 3, answer: bool = True
) -> SkillTable:
    """Every method on the pipeline's task: random with several seeds, Skill-KNN's base with each order.

    Args:
        seeds: of random: the run's own and those that follow it.
        answer: without it nothing is asked of the LM but rewrites, and only what is selected is measured.

    Raises:
        UserError: the task has no sketch.
    """
    task, config = pipeline.task, pipeline.config
    if task.language not in SKETCHES:
        raise UserError(f"{task.name} is neither SQL nor COGS: compare on it with ceil-jax compare")
    measure = partial(
        selected, task.validation, bank=task.train, language=task.language, sketch=SKETCHES[task.language]
    )
    rows = []
    for method in methods:
        evaluations: list[Evaluation] = []
        choices: list[Selected] = []
        for repeat in repeats(pipeline, method, seeds):
            choices.append(measure(repeat.retrieve(method, task.validation)))
            if answer:
                evaluations.append(repeat.evaluate(method))
        rows.append(
            Row(
                method,
                METHODS[method].label,
                len(choices),
                score_of(evaluations) if evaluations else None,
                mean_selected(choices),
            )
        )
    return SkillTable(
        task,
        pipeline.lm.name if answer else "",
        config.shots,
        config.encoder,
        answer,
        tuple(rows),
        tuple(_notes(pipeline, methods)),
    )


def repeats(pipeline: Pipeline, method: str, seeds: int) -> Iterator[Pipeline]:
    """The pipelines that a method is run in: one a seed, one an order, or the one there is."""
    config = pipeline.config
    variants: dict[str, Callable[[], list[RunConfig]]] = {
        "random": lambda: [replace(config, data_seed=config.data_seed + i) for i in range(seeds)],
        "skill_base": lambda: [
            replace(config, skills=replace(config.skills, order=order))
            for order in range(config.skills.orders)
        ],
    }
    if method not in variants:
        yield pipeline
        return
    for variant in variants[method]():
        repeat = Pipeline(variant, pipeline.task, pipeline.models)
        if pipeline.inputs.orders(method):
            repeat.inputs.rewriter = pipeline.inputs.rewriter
        yield repeat


def score_of(evaluations: Sequence[Evaluation]) -> Score:
    """Of one method's evaluations on the same queries, one a repeat."""
    values = 100 * np.array([evaluation.value for evaluation in evaluations])
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    by_query = 100 * np.mean([evaluation.scores for evaluation in evaluations], axis=0)
    return Score(float(values.mean()), sd, bootstrap_interval(by_query))


def _notes(pipeline: Pipeline, methods: Sequence[str]) -> Iterator[str]:
    """The rewriter's failures and what it cost, where it was asked."""
    if not any(pipeline.inputs.orders(method) for method in methods):
        return
    costs = pipeline.inputs.rewriter.costs
    seconds, tokens = sum(cost.seconds for cost in costs), sum(cost.tokens for cost in costs)
    yield pipeline.inputs.report(methods)
    yield f"Rewriting bank and queries took {seconds:,.0f} s and {tokens:,} LM tokens."
