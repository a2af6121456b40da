"""Finding one set of examples for all queries: a pool, random sets from it, the effect of each
example on their scores, and which sets to try next.

The score of a set is modelled as a sum over its examples, y_S = b + Σ θ_e, fitted by ridge
regression on sets with known scores (Chang & Jia, ACL 2023). Sets that may be the best are tried
next, as in CASE (ICML 2025); here they are the best sets for draws of θ from its posterior.
"""

from __future__ import annotations

import math
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
"""λ of the pool: the weight of diversity against typicality of its examples."""

LONGEST = 0.9
"""Examples longer than this quantile of the bank do not enter the pool, because every prompt would
pay for them."""

_AMONG = 1_000
"""The most examples of a group from which the pool is chosen; a larger group is sampled."""

_TRIES = 8
"""Number of draws for each set that is wanted, after which fewer are returned."""

_POOL_DRAWS = 11
_SET_DRAWS = 12
_CHALLENGER_DRAWS = 13
"""Beside the seed, so that the three functions that draw do not draw the same numbers."""

PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""The grid for the penalty of the ridge regression; the one with the smallest leave-one-out error
is used."""


def diverse_pool(
    vectors: Float[np.ndarray, "n d"],
    groups: Int[np.ndarray, " n"],
    lengths: Int[np.ndarray, " n"],
    size: int,
    seed: int,
) -> Int[np.ndarray, " p"]:
    """Return the positions of at most `size` examples, in random order. Each group has about the
    same number; within a group they are chosen by greedy MAP with relevance to its mean, so that
    they are typical and different.

    Args:
        vectors: the vectors of the examples, of any length.
        groups: group numbers from 0, equal for examples of one label; all 0 without labels. If
            there are more groups than `size`, the largest groups have one example each.
        lengths: the lengths of the examples in a prompt; the longest tenth is left out.
        size: the most examples.
        seed: seeds the order, and the samples of groups with more than 1,000 examples.
    """
    generator = np.random.default_rng([seed, _POOL_DRAWS])
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
    """Return how many items of each group to take, `size` in all (or all there are), as equally as
    the groups allow: groups that are not used up differ by at most one.

    Args:
        counts: the number of items in each group.
        size: the number of items to take.
        order: the groups in the order in which they get an extra item if the shares cannot be
            equal.

    >>> fair_shares(np.array([9, 1, 9]), 6, np.array([2, 1, 0])).tolist()
    [2, 1, 3]
    """
    shares = np.zeros(len(counts), np.int64)
    remaining = min(size, int(counts.sum()))
    while remaining:
        for group in order:
            if remaining and shares[group] < counts[group]:
                shares[group] += 1
                remaining -= 1
    return shares


def balanced_sets(
    groups: Int[np.ndarray, " p"], count: int, size: int, seed: int
) -> Int[np.ndarray, "m k"]:
    """Return at most `count` distinct random sets from a pool, as ascending positions in it.

    In a set, the numbers of examples from any two groups differ by at most one, unless a group is
    used up. All examples of a group are in about the same number of sets.

    Args:
        groups: the group number, from 0, of each example of the pool.
        count: how many sets are wanted; a small pool may have fewer.
        size: examples in a set, at most as many as in the pool.
        seed: of the draws.
    """
    generator = np.random.default_rng([seed, _SET_DRAWS])
    counts = np.bincount(groups)
    uses = np.zeros(len(groups), np.int64)  # in how many sets each example is
    sets: dict[tuple[int, ...], None] = {}  # distinct, in the order drawn
    for _ in range(_TRIES * count):
        if len(sets) == count:
            break
        shares = fair_shares(counts, size, generator.permutation(len(counts)))
        # the least used examples first, equally used ones in random order
        order = generator.permutation(len(groups))
        order = order[np.argsort(uses[order], kind="stable")]
        # of each group, the first ones in that order
        group = groups[order]
        members = order[earlier_equals(group) < shares[group]]
        uses[members] += 1
        sets.setdefault(tuple(sorted(members.tolist())))
    return np.array(list(sets), np.int32).reshape(len(sets), size)


class Effects(NamedTuple):
    """The estimated effect of each example on the score of a set: y_S = b + Σ θ_e."""

    mean: float
    """The mean score of the sets."""
    share: Float[np.ndarray, " p"]
    """The share of the sets that each example is in."""
    theta: Float[np.ndarray, " p"]
    covariance: Float[np.ndarray, "p p"]
    """The covariance of the posterior of θ."""

    def predict(self, sets: Int[np.ndarray, "m k"]) -> Float[np.ndarray, " m"]:
        """Return the expected score of each set."""
        return self.mean + self.theta[sets].sum(axis=1) - self.share @ self.theta


def fit_effects(
    sets: Int[np.ndarray, "m k"], values: Float[np.ndarray, " m"], pool: int
) -> Effects:
    """Estimate the effect of each example of a pool by ridge regression on the scores of sets.

    The penalty is the one of PENALTIES with the smallest leave-one-out error; that error is used as
    the noise variance of the posterior.
    """
    member = np.zeros((len(sets), pool))
    np.put_along_axis(member, sets, 1.0, axis=1)
    share = member.mean(axis=0)
    x = member - share  # [m, p]
    y = values - values.mean()
    best_error = np.inf
    theta = np.zeros(pool)
    covariance = np.zeros((pool, pool))
    for penalty in PENALTIES:
        inverse = np.linalg.inv(x.T @ x + penalty * np.eye(pool))
        hat = x @ inverse @ x.T
        fitted = hat @ y
        # leaving a set out also changes the mean, which contains 1 / m of its score
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
    """Return the set with the largest Σ θ_e in which no group has more than its equal share,
    rounded up, as ascending positions. If these are too few, the others with the largest θ_e are
    added."""
    equal_share = math.ceil(size / len(np.unique(groups)))
    order = np.argsort(-theta, kind="stable")
    within = earlier_equals(groups[order]) < equal_share
    # those beyond their group's share come last
    preferred = np.concatenate([order[within], order[~within]])
    return np.sort(preferred[:size]).astype(np.int32)


def challengers(
    effects: Effects,
    groups: Int[np.ndarray, " p"],
    size: int,
    count: int,
    known: Int[np.ndarray, "m k"],
    seed: int,
) -> Int[np.ndarray, "c k"]:
    """Return at most `count` sets that have not been tried: the best set for θ, and the best for
    draws of θ from its posterior, so that examples with an uncertain effect are tried too.

    Args:
        effects: the effects estimated from the known sets.
        groups: the group number of each example of the pool.
        size: examples in a set.
        count: how many sets are wanted.
        known: the sets that have been tried.
        seed: seeds the draws, together with the number of known sets.
    """
    generator = np.random.default_rng([seed, _CHALLENGER_DRAWS, len(known)])
    known_sets = {tuple(positions) for positions in known.tolist()}
    new_sets: dict[tuple[int, ...], None] = {}
    theta = effects.theta
    for _ in range(_TRIES * count):
        if len(new_sets) == count:
            break
        best = tuple(best_set(theta, groups, size).tolist())
        if best not in known_sets:
            new_sets.setdefault(best)
        theta = generator.multivariate_normal(effects.theta, effects.covariance, method="eigh")
    return np.array(list(new_sets), np.int32).reshape(len(new_sets), size)


Measure = Literal["metric", "choice", "lm_scores"]
"""The kind of a set's score for a query. metric: the metric of the LM's answer; choice: log P of
the right choice among all choices; lm_scores: log P of the gold output."""


def measured_by(scores: Mapping[str, np.ndarray]) -> Measure:
    """Return which of some arrays of scores to use: the one closest to the task's metric."""
    measures: tuple[Measure, ...] = ("metric", "choice", "lm_scores")
    return next(name for name in measures if name in scores)


def set_values(measure: Measure, scores: Float[np.ndarray, "q m"]) -> Float[np.ndarray, " m"]:
    """Return the value of each set over all queries, higher for better.

    It is the mean of the metric, or of P of the right choice, which is how often a sampled answer
    would be right. Log P of generated outputs varies more between queries than between sets, so
    each query's values are standardised first, and all queries count alike.
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
    """Return the numbers of the most promising sets, by the mean of their measured score and the
    score that the effects of their examples predict.

    Args:
        sets: positions in the pool.
        values: the measured value of each set, higher for better.
        effects: the effects estimated from these sets.
        count: how many sets are wanted.
    """
    promise = (values + effects.predict(sets)) / 2
    return np.argsort(-promise, kind="stable")[:count]
