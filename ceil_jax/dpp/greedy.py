"""Greedy MAP inference for a DPP: add the item that raises log det the most, k times.

This is the algorithm of Chen, Zhang & Zhou 2018 (Fast Greedy MAP Inference for DPP). Its
incremental Cholesky factorisation runs on the correlations C_ij = S_ij / √(S_ii S_jj), because

    log det L'_S = Σ_{i ∈ S} (r_i / λ + log S_ii) + log det C_S,

so that the gain of item i is r_i / λ + log S_ii + log d_i² with d_i² = 1 − Σ_t c_ti². The
exponential of r / λ, which overflows or underflows float32 below λ = 0.01, is never taken.

The objective is log det over sets of exactly k items: items are added even if the gain is negative,
as in the released code. That code repeats items if there are duplicates. Here an item is closed
once it is chosen, or once d_i² ≤ ε, when up to rounding it is a linear combination of the chosen
items. When every item is closed, the remaining positions hold item −1 and gain −inf.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ceil_jax.dpp.kernel import (
    Scalar,
    at_least_float32,
    bounded_trade_off,
    similarity,
    similarity_from_features,
)
from ceil_jax.dpp.lengths import norm, of_moderate_length
from ceil_jax.dpp.lifting import lifted_in_chunks

CLOSED_BELOW = 1024
"""The residual d_i² below which an item is closed, in units of the dtype's machine epsilon: 1.2e-4
in float32. That is d_i² of two items whose cosine is 0.9999, where log d_i² is still accurate to
1e-3."""

GRAM_UP_TO = 4
"""The largest n / k for which S is computed whole: up to n = 4 k, one matrix product for all n rows
takes no longer than computing k rows one by one."""


class MapResult(NamedTuple):
    """The chosen set, in the order chosen.

    Examples:
        >>> result = greedy_map(jnp.diag(jnp.array([1.0, 4.0, 2.0])), 2)
        >>> result.items.tolist()
        [1, 2]
        >>> bool(jnp.isclose(result.gains.sum(), jnp.log(4 * 2)))
        True
    """

    items: Int[Array, "*b k"] | Int[np.ndarray, "*b k"]
    """Item indices; −1 in positions for which no item was left."""
    gains: Float[Array, "*b k"] | Float[np.ndarray, "*b k"]
    """The gain in log det of each item; they sum to the log det of the set. −inf where the item is
    −1."""


class _State(NamedTuple):
    residual: Float[Array, " n"]
    """d_i² of each open item given the chosen ones; 1 for closed items."""
    factor: Float[Array, "k n"]
    """Row t of the Cholesky factor, with entries c_ti, written when the t-th item is chosen."""
    open: Bool[Array, " n"]


@partial(jax.jit, static_argnames="k")
def greedy_map(
    kernel: Float[Array, "n n"], k: int, valid: Bool[Array, " n"] | None = None
) -> MapResult:
    """Choose k items greedily by log det of a positive semi-definite kernel L.

    Only valid items are chosen; by default all are valid.

    Ties go to the lower index. Items with L_ii = 0, which may come from underflow with a small λ,
    have log det −∞ and are never chosen.

    >>> import jax.numpy as jnp
    >>> greedy_map(jnp.array([[2.0, 1.9, 0.0], [1.9, 2.0, 0.0], [0.0, 0.0, 1.0]]), k=2).items.tolist()
    [0, 2]
    """
    kernel = at_least_float32(kernel)
    diagonal = jnp.diagonal(kernel)
    return _greedy(lambda item: _at(kernel, item), diagonal, jnp.zeros_like(diagonal), k, valid)


def greedy_map_from_features(
    features: Float[Array, "n d"] | Float[np.ndarray, "n d"],
    relevance: Float[Array, " n"] | Float[np.ndarray, " n"],
    k: int,
    trade_off: Scalar,
    valid: Bool[Array, " n"] | Bool[np.ndarray, " n"] | None = None,
) -> MapResult:
    """Choose k items greedily by log det of the conditional kernel of some features.

    The set is that of `greedy_map(conditional_kernel(relevance, similarity_from_features(features),
    trade_off), k)`. The kernel is never formed, so any λ above 0 is safe. Only the rows of S for chosen
    items are computed, unless the whole matrix is cheaper (`GRAM_UP_TO`). Ties go to the lower
    index.

    Args:
        features: vectors of any length; S is their similarity, (1 + cos) / 2.
        relevance: r on the scale of S. A constant added to it does not change the set.
        k: items to choose, at least 0.
        trade_off: λ, above 0; a small λ weighs relevance, a large one diversity.
        valid: items that may be chosen; all by default.

    >>> import jax.numpy as jnp
    >>> features = jnp.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    >>> greedy_map_from_features(features, jnp.array([0.0, -0.01, -0.2]), k=2, trade_off=0.1).items.tolist()
    [0, 2]

    Raises:
        ValueError: see `kernel.bounded_trade_off`.
    """
    return _from_features(
        at_least_float32(features),
        at_least_float32(relevance),
        k,
        bounded_trade_off(trade_off),
        valid,
    )


@partial(jax.jit, static_argnames="k")
def _from_features(
    features: Array, relevance: Array, k: int, trade_off: Scalar, valid: Array | None
) -> MapResult:
    @lifted_in_chunks
    def choose(
        features: Array, relevance: Array, trade_off: Array, valid: Array | None
    ) -> MapResult:
        features = of_moderate_length(features)
        norms = norm(features)
        diagonal = similarity(jnp.sum(features * features, axis=1), norms * norms)
        S = similarity_from_features(features) if features.shape[0] <= GRAM_UP_TO * k else None

        def similarity_row(item: Array) -> Array:
            if S is not None:
                return _at(S, item)
            dots = jnp.matmul(features, _at(features, item), precision="highest")
            return similarity(dots, norms * _at(norms, item))

        return _greedy(similarity_row, diagonal, relevance / trade_off, k, valid)

    return choose(features, relevance, trade_off, valid)


def _greedy(
    similarity_row: Callable[[Int[Array, ""]], Float[Array, " n"]],
    diagonal: Float[Array, " n"],
    log_quality: Float[Array, " n"],
    k: int,
    valid: Bool[Array, " n"] | None,
) -> MapResult:
    """Return the greedy MAP set of the kernel Diag(q)^½ S Diag(q)^½.

    It is computed from log q, the diagonal of S, and a function that returns a row of S.
    """
    n = diagonal.size
    dtype = diagonal.dtype
    steps = min(k, n)
    if not steps:
        return MapResult(jnp.full(k, -1, jnp.int32), jnp.full(k, -jnp.inf, dtype))
    epsilon = CLOSED_BELOW * jnp.finfo(dtype).eps
    positions = jnp.arange(n, dtype=jnp.int32)

    positive = diagonal > 0
    root = jnp.sqrt(jnp.where(positive, diagonal, 1))
    log_quality = jnp.where(positive, log_quality + 2 * jnp.log(root), -jnp.inf)

    def step(state: _State, t: Int[Array, ""]) -> tuple[_State, tuple[Array, Array]]:
        gain = jnp.where(state.open, log_quality + jnp.log(state.residual), -jnp.inf)
        highest = gain.max()
        has_item = highest > -jnp.inf
        # argmax with ties to the first, as two plain reductions, which XLA vectorises on a CPU,
        # unlike argmax
        best = jnp.where(gain == highest, positions, n - 1).min()
        # Σ_t c_t,best c_t
        explained = jnp.matmul(_at(state.factor.T, best), state.factor, precision="highest")
        row = similarity_row(best) / root / _at(root, best) - explained
        row = row * jnp.where(has_item, jax.lax.rsqrt(_at(state.residual, best)), 0)
        residual = state.residual - row * row
        still_open = state.open & (residual > epsilon) & (positions != best)
        state = _State(jnp.where(still_open, residual, 1), state.factor.at[t].set(row), still_open)
        return state, (jnp.where(has_item, best, -1), highest)

    # an item without finite quality is absent, or bad input that must not affect the others
    usable = jnp.isfinite(log_quality) if valid is None else valid & jnp.isfinite(log_quality)
    start = _State(jnp.ones(n, dtype), jnp.zeros((steps, n), dtype), usable)
    _, (items, gains) = jax.lax.scan(step, start, jnp.arange(steps))
    return MapResult(
        jnp.pad(items, (0, k - steps), constant_values=-1),
        jnp.pad(gains, (0, k - steps), constant_values=-jnp.inf),
    )


def _at(array: Array, item: Int[Array, ""]) -> Array:
    """`array[item]` without bounds checks, for an index that is known to be in bounds."""
    return array.at[item].get(mode="promise_in_bounds")
