"""Whether a trained method may join the race: what it would cost, and whether it has something to win."""

from __future__ import annotations

import logging

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics.bootstrap import Interval, bootstrap_interval
from ceil_jax.pipeline.models import Encoders
from ceil_jax.pipeline.search import shortlists
from ceil_jax.report.dry_run import preparation
from ceil_jax.tasks.example import Task
from ceil_jax.training.candidates import CandidateSets, log_probs
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
    task = field.task
    try:
        plan = preparation(candidate.config(field.config), task, candidate.method)
    except UserError as error:
        log.info("%s: its cost cannot be counted: %s", candidate.label(), error)
        return None
    return MARGIN * sum(work.read + work.written for work in plan.stages.values() if not work.done)


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
    run, k = field.run(candidate), candidate.shots
    data, bank = run.training_data, run.views.bank
    queries = data.instances(QUERIES)
    n = min(max(SHORTLIST, 2 * k), len(bank) - 1)
    near = shortlists(run.search.nearest(Encoders(run.base, run.base), bank, data.seen(queries), n))
    rng = np.random.default_rng([field.config.data_seed, 6])
    k = min(k, near.shape[1])
    drawn = [[np.sort(rng.choice(near.shape[1], k, replace=False)) for _ in range(SETS)] for _ in queries]
    subsets = np.array([[np.arange(k), *sets] for sets in drawn], np.int32)
    scores = [
        log_probs(data.scores(queries, CandidateSets(*sets), f"sets, order {order}")[0])
        for order, sets in enumerate([(near, subsets), _shuffled(near, subsets, rng)], 1)
    ]
    for order in (1, 2):
        cost = run.costs[f"scoring sets, order {order}"]
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


def spent(field: Field, candidate: Candidate, before: dict[str, float]) -> None:
    """Enter what preparing a candidate has cost since `before`.

    Args:
        field: the race's field.
        candidate: it is prepared now.
        before: stage → LM tokens that have been entered; it is added to.
    """
    costs = field.run(candidate).costs
    for stage, one in costs.items():
        if one.tokens and stage not in before and not stage.startswith("scoring sets"):
            before[stage] = one.tokens
            # the time of training is counted as it passes
            field.meter.spend(one.tokens, 0, one.seconds, one.tokens)


def sized(task: Task) -> bool:
    """Return whether a bank is large enough to learn from."""
    return len(task.train) >= 4 * QUERIES
