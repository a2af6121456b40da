"""Greedy MAP of a DPP: add the item that raises log det the most, k times.

Chen, Zhang & Zhou 2018 (Fast Greedy MAP Inference for DPP), with the incremental Cholesky factorisation run on the
similarity alone: det L'_S = Π exp(r_i / λ) · det S_S, so the gain of item i is

    log det L'_{S ∪ i} − log det L'_S = r_i / λ + log d_i²,      d_i² = S_ii − Σ_t c_ti²

and no exponential of r / λ (which leaves float32 below λ = 0.01) is ever taken.

What is maximised is log det over sets of exactly k items: items are added also while the gain is negative, as the
released code does. The released code, however, has no mask and no stop: with duplicates it repeats items. Here an item
is closed once it is chosen or once d_i² ≤ ε S_ii, where it is a combination of the chosen items but for rounding;
d_i² never grows again. When every item is closed the remaining places hold item −1 and gain −inf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ceil_jax.kernel import Scalar, from_dot_products, prepare


CLOSED_BELOW = 1024
"""ε in units of the dtype's machine epsilon: 1.2e-4 in float32, a pair of items with cosine 0.9999.

Rounding leaves d_i² an absolute error near 1e-7 in float32, so that at ε a gain log d_i² is still good to 1e-3.
"""


class MapResult(NamedTuple):
    """The chosen set, in the order chosen; Σ gains = log det of it."""

    items: Int[Array, "*b k"]
    gains: Float[Array, "*b k"]


def greedy_map(kernel: Float[Array, "n n"], k: int, valid: Bool[Array, " n"] | None = None) -> MapResult:
    """Greedy MAP from a kernel; ties go to the lowest index, items where `valid` is False are never chosen.

    The kernel is taken apart as L_ij = √L_ii C_ij √L_jj and the factorisation runs on C. Items with L_ii = 0 (by
    underflow of a small trade-off, too) have log det −∞ and are never chosen.
    """
    scale = jnp.diagonal(kernel)
    positive = scale > 0
    root = jnp.sqrt(jnp.where(positive, scale, 1))
    log_quality = jnp.where(positive, 2 * jnp.log(root), -jnp.inf)
    return _greedy(lambda item: kernel[item] / root / root[item], log_quality, k, valid)


def greedy_map_from_features(
    features: Float[Array, "n d"],
    relevance: Float[Array, " n"],
    k: int,
    trade_off: Scalar,
    valid: Bool[Array, " n"] | None = None,
    kind: str = "shifted",
) -> MapResult:
    """`greedy_map(conditional_kernel(relevance, similarity_from_features(features, kind), trade_off), k)`.

    Only the chosen items' rows of S are formed, and any trade-off is safe.
    """
    log_quality = relevance / trade_off
    if kind == "dot":  # S_ij = |f_i| cos |f_j|: the lengths are quality, what remains has a unit diagonal
        log_quality, kind = log_quality + jnp.log(jnp.sum(features * features, axis=-1)), "cosine"
    unit = prepare(features, kind)
    return _greedy(lambda item: from_dot_products(unit @ unit[item], kind), log_quality, k, valid)


class _State(NamedTuple):
    residual: Float[Array, " n"]
    """d_i² of every item, given the chosen ones."""
    factor: Float[Array, "k n"]
    """c_ti: row t of the Cholesky factor, written when the t-th item is chosen."""
    open: Bool[Array, " n"]


def _greedy(
    correlation_row: Callable[[Int[Array, ""]], Float[Array, " n"]],
    log_quality: Float[Array, " n"],
    k: int,
    valid: Bool[Array, " n"] | None,
) -> MapResult:
    """Greedy MAP of Diag(q)^½ C Diag(q)^½ with log q and the rows of C, whose diagonal is 1."""
    n, dtype = log_quality.size, log_quality.dtype
    steps = min(k, n)
    epsilon = CLOSED_BELOW * jnp.finfo(dtype).eps

    def step(state: _State, t: Int[Array, ""]) -> tuple[_State, tuple[Array, Array]]:
        gain = jnp.where(state.open, log_quality + jnp.log(state.residual), -jnp.inf)
        best = jnp.argmax(gain)
        found = state.open[best]
        row = correlation_row(best) - state.factor[:, best] @ state.factor
        row = jnp.where(found, row * jax.lax.rsqrt(state.residual[best]), 0)
        residual = jnp.where(state.open, state.residual - row * row, 0)
        still_open = state.open & (residual > epsilon) & (jnp.arange(n) != best)
        state = _State(residual, state.factor.at[t].set(row), still_open)
        return state, (jnp.where(found, best, -1).astype(jnp.int32), gain[best])

    # not finite: no item at all, or bad input, which must not poison the rest
    usable = jnp.isfinite(log_quality) if valid is None else valid & jnp.isfinite(log_quality)
    start = _State(jnp.ones(n, dtype), jnp.zeros((steps, n), dtype), usable)
    _, (items, gains) = jax.lax.scan(step, start, jnp.arange(steps))
    return MapResult(
        jnp.pad(items, (0, k - steps), constant_values=-1),
        jnp.pad(gains, (0, k - steps), constant_values=-jnp.inf),
    )
