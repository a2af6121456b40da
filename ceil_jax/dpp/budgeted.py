"""Greedy MAP under a token budget: max log det L'_S over sets S of at most k items with Σ_{i ∈ S} c_i ≤ B.

Two greedy passes choose among the items that still fit, while a gain is positive: one by gain, one by gain per cost.
The result is the set with the greater log det (Leskovec et al. 2007, CELF, Theorem 3; the safeguard against one large
item is by Khuller, Moss & Naor, 1999). Either pass alone can be arbitrarily bad: by gain, one long item may shut out
many short ones of nearly the same gain; by gain per cost, a short item of little gain may shut out a long one of
great gain.

log det L'_S is submodular and 0 for the empty set. The result reaches at least (1 − 1/e)/2 of the greatest value if
log det is also monotone, as it is when no eigenvalue of L' is below 1, and if fewer than k items are chosen. There is
no such bound under a limit on cost and number together, or once gains can be negative. What always holds: every
chosen item had a positive gain, so the log det is no less than that of any single item that fits (the pass by
gain begins with the best of them), and no less than that of the empty set. Items that are closed as in
`greedy.py`, above all near-copies of chosen ones, are treated as absent.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ceil_jax.dpp.greedy import (
    Limit,
    MapResult,
    Problem,
    from_features,
    from_kernel,
    greedy,
)
from ceil_jax.dpp.kernel import Scalar
from ceil_jax.dpp.lifting import lifted_in_chunks

SAME = 1e-5
"""Relative difference below which two log dets are equal but for rounding. Both passes often find one set, whose
order is then the one by gain."""

Costs = Int[Array, " n"] | Float[Array, " n"]
Budget = int | float | Int[Array, ""] | Float[Array, ""]


@partial(jax.jit, static_argnames="k")
def budgeted_map(
    kernel: Float[Array, "n n"],
    costs: Costs,
    budget: Budget,
    k: int,
    valid: Bool[Array, " n"] | None = None,
) -> MapResult:
    """Greedy MAP under a budget, from a kernel.

    Args:
        kernel: L, [n, n], positive semi-definite.
        costs: [n], positive; for prompts, the tokens of each example.
        budget: greatest total cost, in the unit of the costs.
        k: greatest number of items.
        valid: bool [n], the items that may be chosen; all by default.

    Returns:
        `MapResult` of [k] items and gains in the order chosen; ties go to the lower index.

    >>> import jax.numpy as jnp
    >>> budgeted_map(jnp.diag(jnp.array([9.0, 8.0, 7.0])), jnp.array([10, 5, 5]), budget=10, k=3).items.tolist()
    [1, 2, -1]
    """
    return _better(from_kernel(kernel), costs, budget, k, valid)


@partial(jax.jit, static_argnames=("k",))
def budgeted_map_from_features(
    features: Float[Array, "n d"],
    relevance: Float[Array, " n"],
    costs: Costs,
    budget: Budget,
    k: int,
    trade_off: Scalar,
    valid: Bool[Array, " n"] | None = None,
) -> MapResult:
    """`budgeted_map(conditional_kernel(relevance, similarity_from_features(features), trade_off), …)`.

    Without a budget, the zero of relevance does not matter to sets of one size. Here it decides what one more item is
    worth: with the maximum subtracted, as `kernel.relevance` does, no gain is positive and the set is empty. Add a
    constant to relevance first.

    Args:
        features: [n, d], one vector for each item.
        relevance: r, [n].
        costs: [n], positive.
        budget: greatest total cost, in the unit of the costs.
        k: greatest number of items.
        trade_off: λ, above 0.
        valid: bool [n], the items that may be chosen; all by default.

    Returns:
        `MapResult` of [k] items and gains in the order chosen; ties go to the lower index.
    """

    @lifted_in_chunks
    def choose(
        features: Array, relevance: Array, costs: Array, budget: Array, trade_off: Array, valid: Array | None
    ) -> MapResult:
        # two passes of k steps each read rows of S
        problem = from_features(features, relevance, 2 * k, trade_off)
        return _better(problem, costs, budget, k, valid)

    return choose(features, relevance, costs, budget, trade_off, valid)


def _better(
    problem: Problem, costs: Costs, budget: Budget, k: int, valid: Bool[Array, " n"] | None
) -> MapResult:
    """The better of the two passes."""
    costs, budget = (jnp.asarray(one, problem.diagonal.dtype) for one in (costs, budget))
    by_gain, per_cost = (greedy(problem, k, valid, Limit(costs, budget, per)) for per in (False, True))
    first, second = (jnp.where(result.items >= 0, result.gains, 0).sum() for result in (by_gain, per_cost))
    better = second > first * (1 + SAME)
    return MapResult(*(jnp.where(better, b, a) for a, b in zip(by_gain, per_cost, strict=True)))
