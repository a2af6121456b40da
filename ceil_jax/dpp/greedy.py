"""Greedy MAP of a DPP: add the item that raises log det the most, k times.

Chen, Zhang & Zhou 2018 (Fast Greedy MAP Inference for DPP), with the incremental Cholesky
factorisation run on correlations C_ij = S_ij / √(S_ii S_jj), because

    log det L'_S = Σ_{i ∈ S} (r_i / λ + log S_ii) + log det C_S,

so that the gain of item i is r_i / λ + log S_ii + log d_i² with d_i² = 1 − Σ_t c_ti², and no exponential
of r / λ (which leaves float32 below λ = 0.01) is ever taken.

What is maximised is log det over sets of exactly k items: items are added also while the gain is
negative, as the released code does. That code has no mask and no stop, and with duplicates it repeats
items. Here an item is closed once it is chosen or once d_i² ≤ ε, where it is a combination of the chosen
ones but for rounding; d_i² never grows again. When every item is closed, the places left hold item −1
and gain −inf.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ceil_jax.distributed.devices import map_batches
from ceil_jax.dpp.kernel import Scalar, from_dot_products, norm, relevance, similarity_from_features

CLOSED_BELOW = 1024
"""ε in units of the dtype's machine epsilon: 1.2e-4 in float32, two items whose cosine is 0.9999.

Rounding leaves d_i² an absolute error near 1e-7 in float32, so that at ε log d_i² is still good to 1e-3.
"""

GRAM_UP_TO = 4
"""All n rows of S in one matrix product take no longer than k ≥ n / 4 of them one by one."""

SHORTLISTS = 1024
"""Queries in one call of the compiled function on a CPU, where each core makes calls of its own."""

FEATURES_AT_ONCE = 2**19
"""Numbers in the features that one step of it works on, on a CPU: 2 MiB, to stay near the caches."""

FEATURES_ON_DEVICE = 2**28
"""The same on a GPU or TPU: 1 GiB, because a step takes there as long for one query as for hundreds."""


class MapResult(NamedTuple):
    """The chosen set, in the order chosen. MAP's gains of the items found sum to the set's log det; item −1 and
    gain −∞ stand where none was left."""

    items: Int[Array, "*b k"] | Int[np.ndarray, "*b k"]
    gains: Float[Array, "*b k"] | Float[np.ndarray, "*b k"]


@partial(jax.jit, static_argnames="k")
def greedy_map(kernel: Float[Array, "n n"], k: int, valid: Bool[Array, " n"] | None = None) -> MapResult:
    """Greedy MAP from a kernel; ties go to the lowest index, items where `valid` is False are never chosen.

    Items with L_ii = 0 (underflow of a small trade-off, too) have log det −∞ and are never chosen.
    """
    return greedy(from_kernel(kernel), k, valid)


@partial(jax.jit, static_argnames=("k", "kind"))
def greedy_map_from_features(
    features: Float[Array, "n d"],
    relevance: Float[Array, " n"],
    k: int,
    trade_off: Scalar,
    valid: Bool[Array, " n"] | None = None,
    kind: str = "shifted",
) -> MapResult:
    """`greedy_map(conditional_kernel(relevance, similarity_from_features(features, kind), trade_off), k)`.

    The conditional kernel is never formed, so any trade-off is safe, and of S only the chosen items' rows
    are, unless all together are cheaper (GRAM_UP_TO).
    """
    return greedy(from_features(features, relevance, k, trade_off, kind), k, valid)


def greedy_map_shortlists(
    queries: Float[Array, "q d"] | Float[np.ndarray, "q d"],
    items: Float[Array, "m d"] | Float[np.ndarray, "m d"],
    shortlists: Int[Array, "q n"] | Int[np.ndarray, "q n"],
    k: int,
    trade_off: float,
    kind: str = "shifted",
) -> MapResult:
    """Greedy MAP for many queries, each among its shortlist of the bank's rows (−1 = empty place).

    From embeddings to indices: relevance, similarity and MAP of a batch of queries at a time, on all
    devices, in memory for one batch and the rows that `map_shortlists` takes. `MapResult.items` [q, k] are
    rows of `items`, the bank, which may be memory-mapped. Of tied items the first in the shortlist wins.
    """
    return map_shortlists(_map_shortlists, queries, items, shortlists, trade_off, k=k, kind=kind)


def map_shortlists(
    function: Callable[..., MapResult],
    queries: Float[Array, "q d"] | Float[np.ndarray, "q d"],
    items: Float[Array, "m d"] | Float[np.ndarray, "m d"],
    shortlists: Int[Array, "q n"] | Int[np.ndarray, "q n"],
    trade_off: float,
    *more: np.ndarray,
    **static: Any,
) -> MapResult:
    """`function(queries, shortlists, *more, items, trade_off, **static)` by `map_batches`; `more` are [q, …].

    Of the bank, a device gets the rows that stand in a shortlist, filled up to a power of two so that few shapes
    are ever compiled; the whole bank where it has no more.
    """
    shortlists = np.asarray(shortlists)
    rows = np.unique(np.maximum(shortlists, 0)).astype(np.int32)
    size = 1 << (len(rows) - 1).bit_length()
    if size < len(items):
        items = items[np.pad(rows, (0, size - len(rows)))]
        shortlists = np.where(shortlists >= 0, np.searchsorted(rows, shortlists), -1).astype(np.int32)
    else:
        rows = np.arange(len(items), dtype=np.int32)
    result = map_batches(
        function,
        (queries, shortlists, *more),
        (items, np.asarray(trade_off, queries.dtype)),
        batch_size=per_call(shortlists, items),
        **static,
    )
    chosen, gains = jax.tree.map(np.asarray, result)
    return MapResult(np.where(chosen >= 0, rows[chosen], -1), gains)


def _map_shortlists(
    queries: Float[Array, "b d"],
    shortlists: Int[Array, "b n"],
    items: Float[Array, "m d"],
    trade_off: Float[Array, ""],
    *,
    k: int,
    kind: str,
) -> MapResult:
    def one(place: tuple[Array, Array]) -> MapResult:
        query, shortlist = place
        valid = shortlist >= 0
        features = items[jnp.maximum(shortlist, 0)]
        r = relevance(query, features, kind, valid)
        chosen, gains = greedy_map_from_features(features, r, k, trade_off, valid, kind)
        return MapResult(jnp.where(chosen >= 0, shortlist[chosen], -1), gains)

    return jax.lax.map(one, (queries, shortlists), batch_size=at_once(shortlists, items))


def per_call(shortlists: Array | np.ndarray, items: Array | np.ndarray) -> int:
    """Queries that a call of the compiled function is given."""
    return SHORTLISTS if jax.default_backend() == "cpu" else at_once(shortlists, items)


def at_once(shortlists: Array | np.ndarray, items: Array | np.ndarray) -> int:
    """Queries whose features are worked on together: a power of two."""
    numbers = FEATURES_AT_ONCE if jax.default_backend() == "cpu" else FEATURES_ON_DEVICE
    most = max(1, numbers // (shortlists.shape[1] * items.shape[1]))
    return 1 << (most.bit_length() - 1)


class Problem(NamedTuple):
    """Diag(q)^½ S Diag(q)^½, whose blocks' log det is to be large."""

    similarity_row: Callable[[Int[Array, ""]], Float[Array, " n"]]
    """Item → its row of S."""
    diagonal: Float[Array, " n"]
    """Of S."""
    log_quality: Float[Array, " n"]
    """log q."""


def from_kernel(kernel: Float[Array, "n n"]) -> Problem:
    """The problem of `greedy_map`: S is the kernel itself."""
    diagonal = jnp.diagonal(kernel)
    return Problem(lambda item: _at(kernel, item), diagonal, jnp.zeros_like(diagonal))


def from_features(
    features: Float[Array, "n d"], relevance: Float[Array, " n"], k: int, trade_off: Scalar, kind: str
) -> Problem:
    """The problem of `greedy_map_from_features`, for k steps or a few times as many."""
    norms = norm(features, kind)
    diagonal = from_dot_products(jnp.sum(features * features, axis=1), norms * norms, kind)
    if features.shape[0] <= GRAM_UP_TO * k:
        similarity = similarity_from_features(features, kind)
        return Problem(lambda item: _at(similarity, item), diagonal, relevance / trade_off)

    def similarity_row(item: Int[Array, ""]) -> Float[Array, " n"]:
        dots = jnp.matmul(features, _at(features, item), precision="highest")
        return from_dot_products(dots, norms * _at(norms, item), kind)

    return Problem(similarity_row, diagonal, relevance / trade_off)


class Limit(NamedTuple):
    """What the chosen items may cost together; with it, items are added while the gain is positive."""

    costs: Float[Array, " n"]
    budget: Float[Array, ""]
    per_cost: bool
    """Whether the next item is the one of most gain per cost; if not, of most gain."""

    def worth(self, gain: Float[Array, " n"], left: Float[Array, ""]) -> Float[Array, " n"]:
        """By what the next item is chosen when so much is left; −inf for what may not be chosen."""
        fits = (gain > 0) & (self.costs <= left)
        return jnp.where(fits, gain / self.costs if self.per_cost else gain, -jnp.inf)


class _State(NamedTuple):
    residual: Float[Array, " n"]
    """d_i² of every open item, given the chosen ones; 1 for closed ones."""
    factor: Float[Array, "k n"]
    """c_ti: row t of the Cholesky factor, written when the t-th item is chosen."""
    open: Bool[Array, " n"]
    left: Float[Array, ""]
    """Of the budget; 0 where there is none."""


def greedy(
    problem: Problem, k: int, valid: Bool[Array, " n"] | None = None, limit: Limit | None = None
) -> MapResult:
    """Greedy MAP: what the functions above and in `budgeted.py` have in common."""
    similarity_row, diagonal, log_quality = problem
    n, dtype = diagonal.size, diagonal.dtype
    steps = min(k, n)
    epsilon = CLOSED_BELOW * jnp.finfo(dtype).eps
    places = jnp.arange(n, dtype=jnp.int32)

    positive = diagonal > 0
    root = jnp.sqrt(jnp.where(positive, diagonal, 1))
    log_quality = jnp.where(positive, log_quality + 2 * jnp.log(root), -jnp.inf)

    def step(state: _State, t: Int[Array, ""]) -> tuple[_State, tuple[Array, Array]]:
        gain = jnp.where(state.open, log_quality + jnp.log(state.residual), -jnp.inf)
        worth = gain if limit is None else limit.worth(gain, state.left)
        highest = worth.max()
        found = highest > -jnp.inf
        # argmax, the first of ties: two plain reductions, which XLA vectorises on a CPU as it does not argmax
        best = jnp.where(worth == highest, places, n - 1).min()
        # Σ_t c_t,best c_t
        explained = jnp.matmul(_at(state.factor.T, best), state.factor, precision="highest")
        row = similarity_row(best) / root / _at(root, best) - explained
        row = row * jnp.where(found, jax.lax.rsqrt(_at(state.residual, best)), 0)
        residual = state.residual - row * row
        still_open = state.open & (residual > epsilon) & (places != best)
        left = state.left if limit is None else state.left - jnp.where(found, _at(limit.costs, best), 0)
        state = _State(jnp.where(still_open, residual, 1), state.factor.at[t].set(row), still_open, left)
        added = highest if limit is None else jnp.where(found, _at(gain, best), -jnp.inf)
        return state, (jnp.where(found, best, -1), added)

    # a quality that is not finite is no item, or bad input that must not reach the others
    usable = jnp.isfinite(log_quality) if valid is None else valid & jnp.isfinite(log_quality)
    left = jnp.zeros((), dtype) if limit is None else limit.budget
    start = _State(jnp.ones(n, dtype), jnp.zeros((steps, n), dtype), usable, left)
    _, (items, gains) = jax.lax.scan(step, start, jnp.arange(steps))
    return MapResult(
        jnp.pad(items, (0, k - steps), constant_values=-1),
        jnp.pad(gains, (0, k - steps), constant_values=-jnp.inf),
    )


def _at(array: Array, item: Int[Array, ""]) -> Array:
    """`array[item]` for an item known to lie within, without the checks."""
    return array.at[item].get(mode="promise_in_bounds")
