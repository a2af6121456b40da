"""A comparison cut to fit some minutes on this machine: fewer training queries, then fewer rows, then fewer
queries."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.pipeline.answering import ask
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.graph import Opened, open_run
from ceil_jax.pipeline.methods import METHODS, TRAININGS, learns_from_lm
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.plan import Machine, Plan, plan, this_machine
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Task

FEWEST = 150
"""Queries that are answered at least: fewer give intervals that say nothing."""

LEAST_TRAINING = 40
"""Training queries below which a training is left out."""

_PROBE = 16
"""Queries whose prompts without examples tell how fast the LM reads; the table needs them anyway."""

_SHARE = 0.9
"""The share of the minutes that is planned: loading models and the page take the rest."""


class Fitted(NamedTuple):
    """A comparison that fits."""

    opened: Opened
    methods: tuple[str, ...]
    said: str
    """What was cut, and how many minutes all of it would take."""


def fitted(
    config: RunConfig, task: Task, methods: Sequence[str], minutes: float, models: Models | None = None
) -> Fitted:
    """Return the largest comparison that this machine ends within some minutes.

    Cut in this order until it fits: the training queries of methods that learn from the LM, to a half and to a
    quarter; rows, from those that learn from the LM's scores of sets to plain ones; queries, down to 150.

    Args:
        config: the settings of all of it.
        task: the task.
        methods: the rows of the table.
        minutes: how long it may take.
        models: shared with other runs.

    Raises:
        UserError: an LM whose tokens cannot be counted here, or too few minutes for anything.
    """
    models = models or Models()
    opened = open_run(config, task, models)
    machine = _measured(opened)
    whole: float | None = None
    for cut, rows, queries in _cuts(config, task, methods):
        short = task if queries == len(task.validation) else _fewer(task, queries, config.data_seed)
        opened = open_run(cut, short, models)
        seconds = _seconds(opened, rows, machine)
        whole = seconds if whole is None else whole
        if seconds <= 60 * _SHARE * minutes:
            return Fitted(opened, rows, _said(opened, rows, methods, machine, whole, seconds))
    needed = seconds / 60 / _SHARE
    raise UserError(
        f"--minutes {minutes:g}: {FEWEST} queries without training take {needed:.0f} minutes here; give that many"
    )


def _cuts(
    config: RunConfig, task: Task, methods: Sequence[str]
) -> Iterator[tuple[RunConfig, tuple[str, ...], int]]:
    """Ever smaller comparisons: settings, rows, number of queries."""
    rows, queries = tuple(methods), len(task.validation)
    for share in (1.0, 0.5, 0.25):
        yield _trained_on(config, share), rows, queries
    config = _trained_on(config, 0.25)
    dear = [name for name in rows if METHODS[name].trains]
    # sets first, then single examples, then what needs no LM; of each kind the last row first
    dear.sort(key=lambda name: (_dearness(name), rows.index(name)), reverse=True)
    for name in dear:
        rows = tuple(row for row in rows if row != name)
        yield config, rows, queries
    while queries > FEWEST:
        queries = max(FEWEST, int(0.8 * queries))
        yield config, rows, queries


def _dearness(name: str) -> int:
    encoder = METHODS[name].encoder
    assert encoder is not None
    return 2 * learns_from_lm(name) + (learns_from_lm(name) and TRAININGS[encoder].sets)


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


def _measured(opened: Opened) -> Machine:
    """This machine, with the speed at which its LM reads the first prompts of the table."""
    run, graph = opened
    counting = run.models.counting(graph.lm)
    if counting is None:
        raise UserError(
            f"--minutes: how many tokens {graph.config.lm} reads is not known beforehand; leave --minutes out"
        )
    lm, queries = run.lm(graph.lm), graph.queries.examples[:_PROBE]
    builder = graph.answering.builder(run, queries)
    prompts = [builder.text(query, []) for query in queries]
    machine = this_machine()
    began = time.perf_counter()
    with lm.metered("measuring the LM's speed") as meter:
        ask(lm, graph.answering, graph.task.stop, prompts, queries)
    if not counting.parameters or not meter.cost.tokens:
        return machine
    seconds = meter.cost.seconds or time.perf_counter() - began
    return machine._replace(lm=counting.parameters * meter.cost.tokens / max(seconds, 1e-3))


def _seconds(opened: Opened, methods: Sequence[str], machine: Machine) -> float:
    found: Plan = plan(opened.run, [opened.graph.metric(name) for name in methods])
    return found.seconds(machine)


def _said(
    opened: Opened,
    rows: Sequence[str],
    asked: Sequence[str],
    machine: Machine,
    whole: float,
    seconds: float,
) -> str:
    """What was cut, in one line."""
    graph = opened.graph
    counting = opened.run.models.counting(graph.lm)
    speed = machine.lm / counting.parameters if counting and counting.parameters else 0
    parts = [f"{len(graph.queries):,} queries"]
    for name in dict.fromkeys(METHODS[row].encoder for row in rows if learns_from_lm(row)):
        assert name is not None
        parts.append(f"{TRAININGS[name].title} on {graph.settings(name).instances} training queries")
    gone = [METHODS[name].label for name in asked if name not in rows]
    parts += [f"no {' and no '.join(gone)}"] if gone else []
    rest = "" if seconds >= whole else f"; --minutes {whole / 60 / _SHARE:.0f} for all of it"
    reads = f"this machine reads {speed:,.0f} LM tokens a second: " if speed else ""
    return f"{reads}{', '.join(parts)}, about {seconds / 60:.0f} minutes{rest}"
