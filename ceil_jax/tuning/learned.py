"""Whether a trained method may join the race: what it would cost, and whether it has something to win."""

from __future__ import annotations

import logging

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics.bootstrap import Interval, bootstrap_interval
from ceil_jax.pipeline.choosing import shortlists
from ceil_jax.pipeline.plan import plan
from ceil_jax.pipeline.scoring import FixedSets
from ceil_jax.pipeline.stage import closure
from ceil_jax.tasks.example import Task
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.tuning.candidates import Candidate
from ceil_jax.tuning.field import Field

log = logging.getLogger(__name__)

MARGIN = 1.25
"""The factor on the estimates of dry runs, which count a sample."""

QUERIES, SETS, SHORTLIST = 24, 6, 32
"""Queries whose sets are scored to see whether there is something to win, random sets of each, and the nearest
examples that these are drawn from."""


def cost(field: Field, candidate: Candidate) -> float | None:
    """Return the LM tokens that preparing a candidate may take; None where they cannot be counted.

    Args:
        field: the race's field.
        candidate: one that has to be prepared.
    """
    graph = field.graph(candidate)
    try:
        found = plan(field.run, [graph.chosen(candidate.method)])
    except UserError as error:
        log.info("%s: its cost cannot be counted: %s", candidate.label(), error)
        return None
    asked = [lm for stage in found for lm in stage.lms]
    if any(not field.run.models.counting(lm).exact for lm in asked):
        return None
    return MARGIN * found.tokens


def prospect_cost(tokens: float) -> float:
    """Return the LM tokens that `prospect` takes.

    Args:
        tokens: of a prompt with its answer.
    """
    return MARGIN * 2 * QUERIES * (SETS + 1) * tokens


def prospect(field: Field, candidate: Candidate) -> Interval:
    """Return the gain that a choice of sets could have over the top-k set: nats, with a 95 % interval.

    Random sets of some bank examples are scored twice, in two orders of their examples. The set that looks best in
    one order is measured in the other: what one order says of a set is only worth something if the other order
    agrees. The gold answers choose the set, so that retrievers win less.

    Args:
        field: the race's field.
        candidate: its encoder and K are used.
    """
    run, graph, k = field.run, field.graph(candidate), candidate.shots
    queries = graph.training_queries(QUERIES)
    n = min(max(SHORTLIST, 2 * k), len(graph.bank) - 1)
    near = shortlists(run.get(graph.nearest("base", queries, n)))
    rng = np.random.default_rng([field.config.data_seed, 6])
    k = min(k, near.shape[1])
    drawn = [[np.sort(rng.choice(near.shape[1], k, replace=False)) for _ in range(SETS)] for _ in near]
    subsets = np.array([[np.arange(k), *sets] for sets in drawn], np.int32)
    shape = subsets.shape[1], k
    stages = [
        graph.scores(queries, FixedSets(CandidateSets(*sets)), shape, f"sets, order {order}")
        for order, sets in enumerate([(near, subsets), _shuffled(near, subsets, rng)], 1)
    ]
    scores = [run.get(stage)["log_prob"].astype(np.float32) for stage in stages]
    for stage in stages:
        cost = run.own_cost(stage)
        field.meter.spend(cost.tokens, subsets.shape[0] * subsets.shape[1], cost.seconds, cost.tokens)
    gains = [
        np.take_along_axis(there, here.argmax(axis=1)[:, None], axis=1)[:, 0] - there[:, 0]
        for here, there in (scores, scores[::-1])
    ]
    return bootstrap_interval(np.mean(gains, axis=0))


def _shuffled(
    near: np.ndarray, subsets: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The same sets with their examples in another order: prompts follow the places in the shortlist."""
    shortlist, places = near.copy(), subsets.copy()
    for row, sets in zip(shortlist, places, strict=True):
        new = rng.permutation(len(row))
        row[new] = row.copy()
        sets[...] = np.sort(new[sets], axis=1)
    return shortlist, places


def spent(field: Field, candidate: Candidate, entered: set[str]) -> None:
    """Enter what preparing a candidate has cost, each stage once.

    Args:
        field: the race's field.
        candidate: it is prepared now.
        entered: the keys of stages whose LM tokens have been entered; it is added to.
    """
    for stage in closure([field.graph(candidate).chosen(candidate.method)]):
        cost = field.run.own_cost(stage)
        if cost.tokens and stage.key not in entered:
            entered.add(stage.key)
            # the time of training is counted as it passes
            field.meter.spend(cost.tokens, 0, cost.seconds, cost.tokens)


def sized(task: Task) -> bool:
    """Return whether a bank is large enough to learn from."""
    return len(task.train) >= 4 * QUERIES
