"""Greedy MAP under a token budget: max log det L'_S over sets S of k items at most with Σ_{i ∈ S} c_i ≤ B.

Twice greedy, each time among the items that still fit and while a gain is positive: once by gain, once by
gain per cost. The set with the greater log det is the result (Leskovec et al. 2007, CELF, Theorem 3; the
safeguard against one large item is Khuller, Moss & Naor's, 1999). Either pass alone can be arbitrarily bad: by
gain, one long item may shut out many short ones of nearly its gain; by gain per cost, a short item of little
gain may shut out a long one of much.

log det L'_S is submodular and 0 for the empty set, and the result has at least (1 − 1/e)/2 of the greatest
value where it is also monotone, as it is when no eigenvalue of L' is below 1, and where fewer than k items
are chosen: against a limit on cost and number together, or once gains can be negative, this method has no such
bound. What holds always: every item of the result had a positive gain, so that its log det is no less than
that of any single item that fits (the pass by gain begins with the best of them), or of none. Items closed as
in `greedy.py`, near-copies of the chosen ones, count as not there.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ceil_jax.dpp.greedy import (
    CLOSED_BELOW,
    Limit,
    MapResult,
    Problem,
    at_once,
    from_features,
    from_kernel,
    greedy,
    map_shortlists,
)
from ceil_jax.dpp.kernel import Scalar, relevance

SAME = 1e-5
"""Log dets that differ by less, relatively, are equal but for rounding: both passes often find one set, and
then its order is the one by gain."""

NEXT_TO_NOTHING = 0.01
"""In nats: more than rounding does to a gain, and less than gains that matter differ by. Were it 0, a query to which
all items are the same would get none."""

Costs = Int[Array, " n"] | Float[Array, " n"]
Budget = int | Scalar | Int[Array, ""]


@partial(jax.jit, static_argnames="k")
def budgeted_map(
    kernel: Float[Array, "n n"],
    costs: Costs,
    budget: Budget,
    k: int,
    valid: Bool[Array, " n"] | None = None,
) -> MapResult:
    """The set from a kernel, in the order chosen, places left −1 with gain −inf; ties go to the lowest index.

    Costs are positive.
    """
    return _better(from_kernel(kernel), costs, budget, k, valid)


@partial(jax.jit, static_argnames=("k", "kind"))
def budgeted_map_from_features(
    features: Float[Array, "n d"],
    relevance: Float[Array, " n"],
    costs: Costs,
    budget: Budget,
    k: int,
    trade_off: Scalar,
    valid: Bool[Array, " n"] | None = None,
    kind: str = "shifted",
) -> MapResult:
    """`budgeted_map(conditional_kernel(relevance, similarity_from_features(features, kind), trade_off), …)`.

    Sets of one size do not care where relevance has its zero. Here it decides what one more item is worth: with
    the maximum subtracted, as `kernel.relevance` does, no gain is positive and the set is empty.
    """
    # twice k steps take their rows of S
    problem = from_features(features, relevance, 2 * k, trade_off, kind)
    return _better(problem, costs, budget, k, valid)


def _better(
    problem: Problem, costs: Costs, budget: Budget, k: int, valid: Bool[Array, " n"] | None
) -> MapResult:
    costs, budget = (jnp.asarray(one, problem.diagonal.dtype) for one in (costs, budget))
    by_gain, per_cost = (greedy(problem, k, valid, Limit(costs, budget, per)) for per in (False, True))
    first, second = (jnp.where(result.items >= 0, result.gains, 0).sum() for result in (by_gain, per_cost))
    better = second > first * (1 + SAME)
    return MapResult(*(jnp.where(better, b, a) for a, b in zip(by_gain, per_cost, strict=True)))


def budgeted_map_shortlists(
    queries: Float[Array, "q d"] | Float[np.ndarray, "q d"],
    items: Float[Array, "m d"] | Float[np.ndarray, "m d"],
    shortlists: Int[Array, "q n"] | Int[np.ndarray, "q n"],
    costs: Int[np.ndarray, "q n"],
    budgets: Int[np.ndarray, " q"],
    k: int,
    trade_off: float,
) -> MapResult:
    """`greedy.greedy_map_shortlists`, each query under a budget of its own; unit rows.

    Relevance has its zero where the item that MAP's set of k leaves out, its (k + 1)-th, would be worth next to
    nothing: an item is worth its gain less that item's. Where MAP finds no more than k, all that it finds is worth
    something: an item is worth (r_i − min_j r_j) / λ + log (d_i² / ε), with ε of `greedy.py`. So k says what is too
    little to be chosen for being short, whatever λ; a budget that takes all of MAP's set gets it, or a better one.

    Args:
        costs: of the shortlists' items, 1 or more; whatever in empty places.

    Returns:
        `MapResult.items` [q, k] are rows of `items`; the gains are those of `greedy_map_shortlists`, in which
        the greatest relevance is zero.
    """
    costs, budgets = costs.astype(queries.dtype), budgets.astype(queries.dtype)
    return map_shortlists(_map_shortlists, queries, items, shortlists, trade_off, costs, budgets, k=k)


def _map_shortlists(
    queries: Float[Array, "b d"],
    shortlists: Int[Array, "b n"],
    costs: Float[Array, "b n"],
    budgets: Float[Array, " b"],
    items: Float[Array, "m d"],
    trade_off: Float[Array, ""],
    *,
    k: int,
) -> MapResult:
    def one(place: tuple[Array, Array, Array, Array]) -> MapResult:
        query, shortlist, cost, budget = place
        valid = shortlist >= 0
        features = items[jnp.maximum(shortlist, 0)]
        r = relevance(query, features, valid=valid)
        # 3 k steps take their rows of S
        problem = from_features(features, r, 3 * k, trade_off, "shifted")
        left_out = greedy(problem, k + 1, valid).gains[k]
        epsilon = CLOSED_BELOW * jnp.finfo(r.dtype).eps
        least = jnp.where(valid, problem.log_quality, 0).min() + jnp.log(epsilon)
        zero = jnp.where(jnp.isfinite(left_out), left_out - NEXT_TO_NOTHING, least)
        shifted = problem._replace(log_quality=problem.log_quality - zero)
        chosen, gains = _better(shifted, cost, budget, k, valid)
        return MapResult(jnp.where(chosen >= 0, shortlist[chosen], -1), gains + zero)

    return jax.lax.map(one, (queries, shortlists, costs, budgets), batch_size=at_once(shortlists, items))
