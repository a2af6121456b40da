"""Skill-KNN beside other retrievers: scores, and measures of the examples each of them selects.

Methods that depend on a random draw or an order of demonstrations are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics.bootstrap import Interval, Sample, bootstrap_interval, by_group, mean
from ceil_jax.pipeline.choosing import Chosen
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.evaluate import evaluate
from ceil_jax.pipeline.graph import Graph, Opened
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.records import Record
from ceil_jax.pipeline.stage import Run, closure
from ceil_jax.pipeline.views import Skills, failures
from ceil_jax.report.table import Table, Value
from ceil_jax.skills.sketches import cogs_sketch, sql_sketch
from ceil_jax.store.cost import Cost
from ceil_jax.tasks.example import Task
from skill_knn.analysis import SelectionMeasures, mean_selected, selected

SKETCHES = {"sql": sql_sketch, "cogs": cogs_sketch}
"""The sketch of outputs by `Task.language`."""


class RepeatedScore(NamedTuple):
    """A metric over the repeats of a method, in percent."""

    mean: float
    sd: float
    """Standard deviation over repeats (n − 1 in the denominator); 0 for one repeat."""
    interval: Interval
    """95 % bootstrap interval over queries of each query's mean over repeats."""


@dataclass(frozen=True)
class MethodResult:
    """One method on one task."""

    method: str
    label: str
    oracle: bool
    """Whether it looks at the queries' gold outputs."""
    repeats: int
    score: RepeatedScore | None
    """None where the LM did not answer."""
    selected: SelectionMeasures


@dataclass(frozen=True)
class SkillComparison:
    """Several methods on one task."""

    task: Task
    lm: str
    shots: int
    encoder: str
    answered: bool
    """Whether the LM answered the queries; without, only the selected examples are measured."""
    results: tuple[MethodResult, ...]
    notes: tuple[str, ...]
    """How many rewrites failed, and what rewriting cost."""

    def table(self) -> Table:
        """A row for each method; measures that the task does not have are left out."""
        measured = [
            name for name in _MEASURES if not all(np.isnan(getattr(one.selected, name)) for one in self.results)
        ]
        scored = [f"{self.task.metric} %", "± sd", "95 % interval"] if self.answered else []
        rows: list[list[Value]] = []
        for one in self.results:
            several = one.repeats > 1
            row: list[Value] = [one.label, one.repeats if several else None]
            if one.score is not None:
                row += [one.score.mean, one.score.sd if several else None, one.score.interval]
            rows.append([*row, *(float(getattr(one.selected, name)) for name in measured)])
        return Table(["method", "repeats", *scored, *(_MEASURES[name] for name in measured)], rows)

    def title(self) -> str:
        """Return the task, its sizes and the models, for a line above the table."""
        return (
            f"{self.task.name}: {len(self.task.validation):,} queries, bank of {len(self.task.train):,}, "
            f"{self.shots} examples; {self.encoder} compares" + (f", {self.lm} answers" if self.answered else "")
        )

    def markdown(self) -> str:
        """Return title, table and notes as Markdown."""
        return "\n\n".join([self.title(), self.table().markdown().rstrip(), *self.notes]) + "\n"

    def text(self) -> str:
        """Return title, table and notes for a terminal."""
        return "\n".join([self.title(), "", self.table().text(), "", *self.notes])

    def panels(self) -> Iterator[tuple[list[tuple[float, float, float]], str]]:
        """Yield the panels of a figure: a (value, low, high) for each method, and the label of the axis.

        There is one panel of scores; where the LM did not answer, there is one for each measure that the task has.
        """
        scores = [one.score for one in self.results if one.score is not None]
        if scores:
            values = [(score.mean, score.interval.low, score.interval.high) for score in scores]
            yield values, f"{self.task.metric}, % (n = {len(self.task.validation)})"
            return
        for name, label in _MEASURES.items():
            measured = [getattr(one.selected, name) for one in self.results]
            if not np.isnan(measured).all():
                yield [(value, value, value) for value in measured], label


_MEASURES = {
    "overlap": "sketch overlap %",
    "coverage": "sketch coverage %",
    "databases": "databases",
    "tables": "tables in the database",
    "length": "answer length",
}


ORACLES = ("target_knn", "target_sketch")
"""The paper's two oracles."""


def wins_table(comparisons: Sequence[SkillComparison]) -> Table:
    """Return the paper's Table 2: a row for each LM and method, a column for each task, and the wins.

    A method wins a task if no method that is not an oracle scores higher; scores are compared with the one decimal
    that is printed, and equal ones win together, as in the paper's own numbers. The last column counts the tasks on
    which it scores above at least one of the paper's oracles, which the paper underlines.

    Args:
        comparisons: of each LM and task, with the same methods; the LM answered in all of them.
    """
    tasks = list(dict.fromkeys(one.task.name for one in comparisons))
    rows: list[list[Value]] = []
    for lm in dict.fromkeys(one.lm for one in comparisons):
        of_task = {one.task.name: one.results for one in comparisons if one.lm == lm}
        printed = {
            task: {one.method: round(one.score.mean, 1) for one in results if one.score}
            for task, results in of_task.items()
        }
        methods = {one.method: (one.label, one.oracle) for results in of_task.values() for one in results}
        won, above = wins(printed, [name for name, (_, oracle) in methods.items() if not oracle])
        for method, (label, oracle) in methods.items():
            scores = [printed.get(task, {}).get(method) for task in tasks]
            counts = [None, None] if oracle else [won[method], above[method]]
            rows.append([lm, label, *scores, *counts])
    return Table(["LM", "method", *tasks, "wins", "above an oracle"], rows)


def wins(scores: Mapping[str, Mapping[str, float]], methods: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return, for each method, the tasks on which none of the methods is better, and those where it beats an oracle.

    Args:
        scores: task → method → score as printed, oracles included.
        methods: those that compete.
    """
    won, above = dict.fromkeys(methods, 0), dict.fromkeys(methods, 0)
    for found in scores.values():
        best = max(found[method] for method in methods)
        oracles = [score for name, score in found.items() if name.partition("@")[0] in ORACLES]
        for method in methods:
            won[method] += found[method] == best
            above[method] += any(found[method] > oracle for oracle in oracles)
    return won, above


def compare_skills(opened: Opened, methods: Sequence[str], *, seeds: int = 3, answer: bool = True) -> SkillComparison:
    """Run every method on a task: random with several seeds, Skill-KNN's base with each order.

    Args:
        opened: a run on a SQL or COGS task.
        methods: the rows of the table: names in METHODS, each with @ENCODER behind it for another encoder.
        seeds: how many seeds random is run with: the run's own and those that follow it.
        answer: let the LM answer the queries; without, it only rewrites inputs as skills.

    Raises:
        UserError: the task has no sketch.
    """
    run, graph = opened
    task, config = graph.task, graph.config
    if task.language not in SKETCHES:
        raise UserError(f"{task.name} is neither SQL nor COGS: compare on it with ceil-jax compare")
    measure = partial(
        selected, task.validation, bank=task.train, language=task.language, sketch=SKETCHES[task.language]
    )
    results = []
    chosen: list[Chosen] = []
    for method in methods:
        evaluations: list[Record] = []
        choices: list[SelectionMeasures] = []
        name, _, encoder = method.partition("@")
        own = with_encoder(graph, encoder)
        for repeat in repeats(own, name, seeds):
            choices.append(measure(run.get(repeat.chosen(name))))
            chosen.append(repeat.chosen(name))
            if answer:
                evaluations.append(evaluate(run, repeat, name))
        label = f"{METHODS[name].label} ({encoder})" if encoder else METHODS[name].label
        results.append(
            MethodResult(
                method,
                label,
                METHODS[name].needs.gold_outputs,
                len(choices),
                score_of(evaluations) if evaluations else None,
                mean_selected(choices),
            )
        )
    return SkillComparison(
        task,
        graph.lm.key if answer else "",
        config.shots,
        config.encoder,
        answer,
        tuple(results),
        tuple(_notes(run, chosen)),
    )


def with_encoder(graph: Graph, encoder: str) -> Graph:
    """Return the stages with another encoder, or the same if the encoder's name is empty."""
    if not encoder:
        return graph
    return Graph(replace(graph.config, encoder=encoder), graph.task, graph.models)


def repeats(graph: Graph, method: str, seeds: int) -> Iterator[Graph]:
    """Yield the variants of a method: one for each seed of random or order of Skill-KNN's base, else the given
    one."""
    config = graph.config
    variants: dict[str, Callable[[], list[RunConfig]]] = {
        "random": lambda: [replace(config, data_seed=config.data_seed + i) for i in range(seeds)],
        "skill_base": lambda: [
            replace(config, skills=replace(config.skills, order=order)) for order in range(config.skills.orders)
        ],
    }
    if method not in variants:
        yield graph
        return
    for variant in variants[method]():
        yield Graph(variant, graph.task, graph.models)


def score_of(evaluations: Sequence[Record]) -> RepeatedScore:
    """Return the score of a method from the records of its evaluations on the same queries, one for each repeat."""
    values = np.array([record.value for record in evaluations])
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    by_query = 100 * np.mean([record.scores() for record in evaluations], axis=0)
    overlap = evaluations[0].overlap
    sample = by_group(Sample(by_query[:, None], mean), overlap and overlap.question)
    return RepeatedScore(float(values.mean()), sd, bootstrap_interval(*sample))


def _notes(run: Run, chosen: Sequence[Chosen]) -> Iterator[str]:
    """Yield how many rewrites failed and what rewriting cost, if any method rewrites."""
    if not (said := failures(run, chosen)):
        return
    cost = sum((run.own_cost(one) for one in closure(chosen) if isinstance(one, Skills)), Cost())
    yield said
    yield f"Rewriting bank and queries took {cost.seconds:,.0f} s and {cost.tokens:,} LM tokens."
