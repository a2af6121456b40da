"""One set of examples for all queries: the pool that sets are drawn from, random sets, what their
scores say of each example, and which sets to try next.

The score of a set is modelled as a sum over its examples, y_S = b + Σ θ_e, fitted by ridge on sets
whose scores are known (Chang & Jia, ACL 2023). Sets that could be the best by what is known of θ are
tried next, as in CASE (ICML 2025); here they are the best sets of θ drawn from its posterior.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.dpp.greedy_numpy import greedy_steps
from ceil_jax.dpp.kernel import similarity
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.retrieval.ranking import earlier_equals

TRADE_OFF = 0.1
"""λ of the pool: how much it weighs that its examples differ against how typical they are."""

LONGEST = 0.9
"""The quantile of the lengths of the bank's examples above which none enters the pool: every prompt
would pay for it."""

_AMONG = 1_000
"""Examples of a group among which those of the pool are chosen; of more, so many are drawn."""

_TRIES = 8
"""Draws for each set that is wanted, before there are fewer."""

PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""The grid for the ridge's penalty; the one with the smallest leave-one-out error is taken."""


def diverse_pool(
    vectors: Float[np.ndarray, "n d"],
    groups: Int[np.ndarray, " n"],
    lengths: Int[np.ndarray, " n"],
    size: int,
    seed: int,
) -> Int[np.ndarray, " p"]:
    """Return the positions of at most `size` examples, in random order: as many of each group, each
    group's by greedy MAP conditioned on its mean, so that they are typical and differ.

    Args:
        vectors: of the examples, of any length.
        groups: numbers from 0, equal for examples of one label; all 0 where there are none. Where
            there are more groups than places, the largest have one.
        lengths: of the examples as a prompt shows them; the longest tenth is left out.
        size: the most examples.
        seed: of the order, and of the draws from groups of more than 1,000.
    """
    generator = np.random.default_rng([seed, 11])
    usable = np.flatnonzero(lengths <= np.quantile(lengths, LONGEST))
    counts = np.bincount(groups[usable], minlength=groups.max(initial=0) + 1)
    shares = fair_shares(counts, size, np.argsort(-counts, kind="stable"))
    chosen: list[int] = []
    for group in np.flatnonzero(shares):
        members = usable[groups[usable] == group]
        if len(members) > _AMONG:
            members = np.sort(generator.choice(members, _AMONG, replace=False))
        features = unit_rows(vectors[members])
        [centre] = unit_rows(features.mean(axis=0, keepdims=True))
        steps = greedy_steps(features, similarity(features @ centre), TRADE_OFF)
        chosen += [int(members[step.item]) for step in islice(steps, int(shares[group]))]
    return generator.permutation(np.array(sorted(chosen), np.int32))


def fair_shares(
    counts: Int[np.ndarray, " g"], size: int, order: Int[np.ndarray, " g"]
) -> Int[np.ndarray, " g"]:
    """Return how many of each group to take so that there are `size` in all, or all there are, and
    any two groups that have more left differ by at most one.

    Args:
        counts: how many each group has.
        size: how many to take.
        order: the groups in the order in which they get what cannot be shared equally.

    >>> fair_shares(np.array([9, 1, 9]), 6, np.array([2, 1, 0])).tolist()
    [2, 1, 3]
    """
    shares = np.zeros(len(counts), np.int64)
    left = min(size, int(counts.sum()))
    while left:
        for group in order:
            if left and shares[group] < counts[group]:
                shares[group] += 1
                left -= 1
    return shares


def balanced_sets(
    groups: Int[np.ndarray, " p"], count: int, size: int, seed: int
) -> Int[np.ndarray, "m k"]:
    """Return at most `count` different random sets of a pool, as places in it, ascending. Groups
    have equal shares of a set, or differ by one, and all examples of a group stand in about as many
    sets.

    Args:
        groups: of the pool's examples, numbers from 0.
        count: how many sets are wanted; a small pool may have fewer.
        size: examples in a set, at most the pool's.
        seed: of the draws.
    """
    generator = np.random.default_rng([seed, 12])
    counts = np.bincount(groups)
    uses = np.zeros(len(groups), np.int64)
    sets: dict[tuple[int, ...], None] = {}
    for _ in range(_TRIES * count):
        if len(sets) == count:
            break
        shares = fair_shares(counts, size, generator.permutation(len(counts)))
        order = generator.permutation(len(groups))
        order = order[np.argsort(uses[order], kind="stable")]
        taken = order[earlier_equals(groups[order]) < shares[groups[order]]]
        uses[taken] += 1
        sets.setdefault(tuple(sorted(taken.tolist())))
    return np.array(list(sets), np.int32).reshape(len(sets), size)


class Effects(NamedTuple):
    """What the scores of sets say of each example: y_S = b + Σ θ_e."""

    mean: float
    """The mean score of the sets."""
    share: Float[np.ndarray, " p"]
    """The share of the sets that each example is in."""
    theta: Float[np.ndarray, " p"]
    covariance: Float[np.ndarray, "p p"]
    """The posterior's, of θ."""

    def predict(self, sets: Int[np.ndarray, "m k"]) -> Float[np.ndarray, " m"]:
        """Return the expected score of each set."""
        return self.mean + self.theta[sets].sum(axis=1) - self.share @ self.theta


def fit_effects(
    sets: Int[np.ndarray, "m k"], values: Float[np.ndarray, " m"], pool: int
) -> Effects:
    """Fit the effect of each example of a pool by ridge on the scores of sets.

    The penalty is the one of PENALTIES with the smallest leave-one-out error, and that error is
    taken for the noise of the posterior.
    """
    member = np.zeros((len(sets), pool))
    np.put_along_axis(member, sets, 1.0, axis=1)
    share = member.mean(axis=0)
    x = member - share
    y = values - values.mean()
    best_error = np.inf
    theta = np.zeros(pool)
    covariance = np.zeros((pool, pool))
    for penalty in PENALTIES:
        inverse = np.linalg.inv(x.T @ x + penalty * np.eye(pool))
        hat = x @ inverse @ x.T
        fitted = hat @ y
        # the mean is left out with the set, too: 1 / m of its own score is in it
        leverage = np.minimum(np.diag(hat) + 1 / len(sets), 1 - 1e-9)
        error = float(np.mean(((y - fitted) / (1 - leverage)) ** 2))
        if error < best_error:
            best_error = error
            theta = inverse @ x.T @ y
            covariance = error * inverse
    return Effects(float(values.mean()), share, theta, covariance)


def best_set(
    theta: Float[np.ndarray, " p"], groups: Int[np.ndarray, " p"], size: int
) -> Int[np.ndarray, " k"]:
    """Return the set with the largest Σ θ_e in which no group has more than its share, rounded up;
    where these are too few, the others with the largest θ_e. Places ascending."""
    most = -(-size // len(np.unique(groups)))
    order = np.argsort(-theta, kind="stable")
    within = earlier_equals(groups[order]) < most
    return np.sort(np.concatenate([order[within], order[~within]])[:size]).astype(np.int32)


def challengers(
    effects: Effects,
    groups: Int[np.ndarray, " p"],
    size: int,
    count: int,
    known: Int[np.ndarray, "m k"],
    seed: int,
) -> Int[np.ndarray, "c k"]:
    """Return at most `count` sets that are not known yet: the best by θ, and the best by draws of θ
    from its posterior, so that an example of which little is known has its chance.

    Args:
        effects: by the scores of the known sets.
        groups: of the pool's examples.
        size: examples in a set.
        count: how many sets are wanted.
        known: sets that have scores.
        seed: of the draws; another one for each wave.
    """
    generator = np.random.default_rng([seed, 13, len(known)])
    before = {tuple(one) for one in known.tolist()}
    found: dict[tuple[int, ...], None] = {}
    theta = effects.theta
    for _ in range(_TRIES * count):
        if len(found) == count:
            break
        one = tuple(best_set(theta, groups, size).tolist())
        if one not in before:
            found.setdefault(one)
        theta = generator.multivariate_normal(effects.theta, effects.covariance, method="eigh")
    return np.array(list(found), np.int32).reshape(len(found), size)


Measure = Literal["metric", "choice", "lm_scores"]
"""What a set's score for a query is: the metric of the LM's answer; log P of the right choice among
all choices; or log P of the gold output."""


def measured_by(scores: Mapping[str, np.ndarray]) -> Measure:
    """Return which of its arrays says best how good a set is: what is nearest to the metric."""
    measures: tuple[Measure, ...] = ("metric", "choice", "lm_scores")
    return next(name for name in measures if name in scores)


def set_values(measure: Measure, scores: Float[np.ndarray, "q m"]) -> Float[np.ndarray, " m"]:
    """Return how good each set is for all queries.

    It is the mean of the metric, or of P of the right choice, which is how often it would be taken.
    Log P of written outputs differs more between queries than between sets: each query's are
    standardised first, so that all queries count alike.
    """
    if measure == "metric":
        return scores.mean(axis=0)
    if measure == "choice":
        return np.exp(scores).mean(axis=0)
    spread = scores.std(axis=1, keepdims=True)
    standard = (scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    return standard.mean(axis=0)


def top_sets(
    sets: Int[np.ndarray, "m k"],
    values: Float[np.ndarray, " m"],
    effects: Effects,
    count: int,
) -> Int[np.ndarray, " c"]:
    """Return the numbers of the most promising sets: by the mean of the score that was measured on
    a few queries and the one that their examples' effects predict."""
    promise = (values + effects.predict(sets)) / 2
    return np.argsort(-promise, kind="stable")[:count]
