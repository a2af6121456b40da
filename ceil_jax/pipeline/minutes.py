"""A comparison cut to fit some minutes on this machine: fewer training queries, then rows, then queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.graph import Opened, open_run
from ceil_jax.pipeline.methods import METHODS, TRAININGS, learns_from_lm
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.plan import WRITING, Machine, Plan, duration, plan, this_machine
from ceil_jax.pipeline.views import Rows
from ceil_jax.store.folder import finish, finished
from ceil_jax.store.hashing import digest
from ceil_jax.store.locking import held
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Task

FEWEST = 150
"""Queries that are answered at least: fewer give intervals that say nothing."""

LEAST_TRAINING = 40
"""Training queries below which a training is left out."""

_WARM, _PROBE = 8, 32
"""Queries answered before the LM's speed is measured, and those with which it is: the table's own prompts."""

_SHARE = 0.9
"""The share of the minutes that is planned: loading models and the page take the rest."""


class Fitted(NamedTuple):
    """A comparison that fits."""

    opened: Opened
    methods: tuple[str, ...]
    said: str
    """The cuts, and how many minutes all of it would take."""


def fitted(
    config: RunConfig, task: Task, methods: Sequence[str], minutes: float, models: Models | None = None
) -> Fitted:
    """Return the largest comparison that this machine ends within some minutes.

    Cut in this order until it fits: the training queries of methods that learn from the LM, to a half and to a
    quarter; their rows, those that learn from sets first, with the rest's training queries back; queries, down to
    150; rows that learn from the bank's outputs alone. A command that was stopped, or is given again, keeps the cut
    that it has taken.

    Args:
        config: the settings of all of it.
        task: the task.
        methods: the rows of the table.
        minutes: how long it may take.
        models: shared with other runs.

    Raises:
        UserError: too few minutes for anything.
    """
    models = models or Models()
    opened = open_run(config, task, models)
    targets = [opened.graph.metric(name).key for name in methods]
    folder = opened.run.root / f"minutes-{digest([targets, minutes])}"
    before = finished(folder)
    machine = None if before else _measured(opened, methods)
    whole: float | None = None
    for number, (cut, rows, queries) in enumerate(_cuts(config, task, methods)):
        if before and number < before["cut"]:
            continue
        short = task if queries == len(task.validation) else _fewer(task, queries, config.data_seed)
        opened = open_run(cut, short, models)
        if before:
            return Fitted(opened, rows, before["said"])
        assert machine is not None
        seconds = _seconds(opened, rows, machine)
        whole = seconds if whole is None else whole
        if seconds <= 60 * _SHARE * minutes:
            said = _said(opened, rows, methods, machine, whole, seconds)
            with held(folder):
                finish(folder, {"cut": number, "said": said})
            return Fitted(opened, rows, said)
    raise UserError(
        f"--minutes {minutes:g}: {FEWEST} queries without training take {_minutes(seconds)} minutes here"
    )


def _cuts(
    config: RunConfig, task: Task, methods: Sequence[str]
) -> Iterator[tuple[RunConfig, tuple[str, ...], int]]:
    """Ever smaller comparisons: settings, rows, number of queries."""
    rows, queries = tuple(methods), len(task.validation)
    shares = (1.0, 0.5, 0.25)
    trained = [name for name in reversed(rows) if METHODS[name].trains]
    # sets first, then single examples; of each kind the last row first
    dear = sorted(filter(learns_from_lm, trained), key=_sets, reverse=True)
    free = [name for name in trained if not learns_from_lm(name)]
    for share in shares:
        yield _trained_on(config, share), rows, queries
    for name in dear:
        rows = tuple(row for row in rows if row != name)
        for share in shares if any(map(learns_from_lm, rows)) else shares[:1]:
            yield _trained_on(config, share), rows, queries
    while queries > FEWEST:
        queries = max(FEWEST, int(0.9 * queries))
        yield config, rows, queries
    for name in free:
        rows = tuple(row for row in rows if row != name)
        yield config, rows, queries


def _sets(name: str) -> bool:
    return TRAININGS[METHODS[name].encoder or ""].sets


def _trained_on(config: RunConfig, share: float) -> RunConfig:
    """Settings with a share of the training queries of methods that learn from the LM."""
    for name, training in TRAININGS.items():
        own = getattr(config, name, None)
        if own is not None and training.lm_tokens and share < 1:
            fewer = max(LEAST_TRAINING, int(share * own.instances))
            config = replace(config, **{name: replace(own, instances=min(own.instances, fewer))})
    return config


def _fewer(task: Task, queries: int, seed: int) -> Task:
    return replace(task, validation=draw(task.validation, queries, seed))


def _measured(opened: Opened, methods: Sequence[str]) -> Machine:
    """This machine, with the speed at which its LM answers the first prompts of a row, in the plan's own units."""
    run, graph = opened
    name = "random" if "random" in methods else "zero"
    for count in (_WARM, _PROBE):
        rows = Rows(graph.queries.examples[:count])
        probe = graph.predictions(name, rows)
        for need in probe.needs:
            run.get(need)
        work = run.estimate(probe)
        with run.lm(graph.lm).metered("measuring the LM's speed") as meter:
            run.get(probe)
    machine = this_machine()
    if not work.read or not meter.now.seconds:
        return machine
    return machine._replace(lm=(work.read + WRITING * work.written) * work.parameters / meter.now.seconds)


def _seconds(opened: Opened, methods: Sequence[str], machine: Machine) -> float:
    found: Plan = plan(opened.run, [opened.graph.metric(name) for name in methods])
    return found.seconds(machine)


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
    for name in dict.fromkeys(METHODS[row].encoder for row in rows if learns_from_lm(row)):
        assert name is not None
        parts.append(f"{TRAININGS[name].title} on {graph.settings(name).instances} training queries")
    gone = [METHODS[name].label for name in asked if name not in rows]
    parts += [f"no {' and no '.join(gone)}"] if gone else []
    rest = "" if seconds >= whole else f"; --minutes {_minutes(whole)} for all of it"
    reads = f"this machine reads {'' if counting.exact else 'about '}{speed:,.0f} LM tokens a second"
    return f"{reads}: {', '.join(parts)}, about {duration(seconds)}{rest}"
