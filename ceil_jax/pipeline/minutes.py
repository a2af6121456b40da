"""A comparison cut to fit some minutes on this machine: fewer training queries, then rows, then
queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.graph import Graph, Opened
from ceil_jax.pipeline.methods import METHODS, TRAININGS
from ceil_jax.pipeline.plan import WRITING, Machine, duration, plan, this_machine
from ceil_jax.pipeline.stage import Run, Stage, unkeyed
from ceil_jax.tasks.draws import draw

FEWEST_QUERIES = 150
"""Queries that are answered at least: fewer give intervals that say nothing."""

LEAST_TRAINING = 40
"""Training queries below which a training is left out."""

_WARM, _PROBE = 8, 64
"""Queries answered before the LM's speed is measured, and those with which it is: with random
examples where the table has such a row, else with none."""

_SHARE = 0.95
"""The share of the minutes that is planned: loading models and the page take the rest."""


class Fitted(NamedTuple):
    """A comparison that fits."""

    opened: Opened
    methods: tuple[str, ...]
    said: str
    """The cuts, and how many minutes all of it would take."""


def fitted(opened: Opened, methods: Sequence[str], minutes: float) -> Fitted:
    """Return the largest comparison that this machine ends within some minutes.

    Cut in this order until it fits: the training queries of methods that learn from the LM, to
    three quarters, a half and a quarter; then those rows one by one, those that learn from sets
    first, each time with all training queries again; queries, down to 150; rows that learn from the
    bank's outputs alone. A command that was stopped, or is given again, keeps the cut that it has
    taken. Where nothing fits, the smallest comparison takes longer.
    """
    targets = tuple(opened.graph.metric(name).key for name in methods)
    return opened.run.get(Taken(targets, minutes, opened, tuple(methods)))


@dataclass(frozen=True)
class Taken(Stage[Fitted]):
    """The first cut that fits, kept as its number, and what is said of it."""

    kind = "minutes"
    targets: tuple[str, ...]
    minutes: float
    opened: Opened = unkeyed()
    methods: tuple[str, ...] = unkeyed()

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        machine, seconds = _measured(self.opened, self.methods), []
        for less, rows in _cuts(self.opened, self.methods):
            seconds.append(_seconds(less, rows, machine))
            if fits := seconds[-1] <= 60 * _SHARE * self.minutes:
                break
        said = _said(less, rows, self.methods, machine, seconds[0], seconds[-1])
        if not fits:
            said += (
                f". That is more than --minutes {self.minutes:g}: fewer queries would show nothing"
            )
        return {"cut": len(seconds) - 1, "said": said}

    def load(self, run: Run, folder: Path) -> Fitted:
        found = run.summary(self)
        less, rows = list(_cuts(self.opened, self.methods))[found["cut"]]
        return Fitted(less, rows, found["said"])


def _cuts(opened: Opened, methods: Sequence[str]) -> Iterator[tuple[Opened, tuple[str, ...]]]:
    """Ever smaller comparisons, each with its rows."""
    config, task, rows = opened.graph.config, opened.graph.task, tuple(methods)
    queries, shares = len(task.validation), (1.0, 0.75, 0.5, 0.25)

    def cut(share: float = 1.0) -> tuple[Opened, tuple[str, ...]]:
        asked = replace(task, validation=draw(task.validation, queries, config.data_seed))
        return Opened(
            opened.run, Graph(_trained_on(config, share), asked, opened.graph.models)
        ), rows

    trained = [name for name in reversed(rows) if METHODS[name].trains]
    # sets first, then single examples; of each kind the last row first
    dear = [name for name in trained if METHODS[name].learns_from_lm]
    dear.sort(key=lambda name: not TRAININGS[METHODS[name].encoder or ""].sets)
    free = [name for name in trained if name not in dear]
    for share in shares:
        yield cut(share)
    for name in dear:
        rows = tuple(row for row in rows if row != name)
        for share in shares if any(name in dear for name in rows) else shares[:1]:
            yield cut(share)
    while queries > FEWEST_QUERIES:
        queries = max(FEWEST_QUERIES, int(0.9 * queries))
        yield cut()
    for name in free:
        rows = tuple(row for row in rows if row != name)
        yield cut()


def _trained_on(config: RunConfig, share: float) -> RunConfig:
    """Settings with a share of the training queries of methods that learn from the LM."""
    for name, training in TRAININGS.items():
        own = getattr(config, name, None)
        if own is not None and training.lm_tokens and share < 1:
            fewer = max(LEAST_TRAINING, int(share * own.instances))
            config = replace(config, **{name: replace(own, instances=min(own.instances, fewer))})
    return config


def _measured(opened: Opened, methods: Sequence[str]) -> Machine:
    """This machine, with the speed at which its LM answers the first prompts of a row, in the
    plan's own units."""
    run, graph = opened
    name = "random" if "random" in methods else "zero"
    run.get(graph.predictions(name, graph.queries.examples[:_WARM]))
    probe = graph.predictions(name, graph.queries.examples[:_PROBE])
    for need in probe.needs:
        run.get(need)
    work = run.estimate(probe)
    with run.lm(graph.lm).metered("measuring the LM's speed") as meter:
        run.get(probe)
    machine = this_machine()
    if not work.read or not meter.now.seconds:
        return machine
    return machine._replace(
        lm=(work.read + WRITING * work.written) * work.parameters / meter.now.seconds
    )


def _seconds(opened: Opened, methods: Sequence[str], machine: Machine) -> float:
    return plan(opened.run, [opened.graph.metric(name) for name in methods]).seconds(machine)


def _minutes(seconds: float) -> str:
    """The --minutes that work of so many seconds needs, rounded up."""
    value = seconds / 60 / _SHARE - 1e-6
    return f"{math.ceil(value):,}" if value > 1 else f"{math.ceil(10 * value) / 10:g}"


def _said(
    opened: Opened,
    rows: Sequence[str],
    asked: Sequence[str],
    machine: Machine,
    whole: float,
    seconds: float,
) -> str:
    """The cuts, in one line."""
    graph = opened.graph
    counting = opened.run.models.counting(graph.lm)
    speed = machine.lm / counting.parameters
    parts = [f"{len(graph.queries):,} queries"]
    learnt = dict.fromkeys(
        METHODS[row].encoder or "" for row in rows if METHODS[row].learns_from_lm
    )
    parts += [
        f"{TRAININGS[name].title} on {graph.settings(name).instances} training queries"
        for name in learnt
    ]
    gone = [METHODS[name].label for name in asked if name not in rows]
    parts += [f"no {' and no '.join(gone)}"] if gone else []
    rest = "" if seconds >= whole else f"; --minutes {_minutes(whole)} for all of it"
    reads = (
        f"this machine reads {'' if counting.exact else 'about '}{speed:,.0f} LM tokens a second"
    )
    return f"{reads}: {', '.join(parts)}, about {duration(seconds)}{rest}"
