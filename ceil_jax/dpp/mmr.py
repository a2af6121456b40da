"""Maximal marginal relevance (Carbonell & Goldstein, 1998), the usual alternative to DPP-MAP."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ceil_jax.dpp.greedy import MapResult
from ceil_jax.dpp.kernel import Scalar, at_least_float32, similarity


def maximal_marginal_relevance(
    features: Float[Array, "n d"],
    relevance: Float[Array, " n"],
    k: int,
    trade_off: Scalar,
    valid: Bool[Array, " n"] | None = None,
) -> MapResult:
    """Choose k items greedily by maximal marginal relevance (MMR).

    The objective is λ r_i − (1 − λ) max_{j chosen} s_ij, with s = (1 + cos) / 2 (Carbonell &
    Goldstein 1998).

    The result holds the items in order of choice, with ties to the lower index, and the value of
    each when it was chosen; −1 and −inf when none is left.

    Args:
        features: unit rows.
        relevance: r on the scale of s.
        k: number of items to choose, at least 0.
        trade_off: λ in [0, 1]; 1 gives top-k, 0 considers diversity alone.
        valid: items that may be chosen; all by default.

    >>> import jax.numpy as jnp
    >>> features = jnp.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> maximal_marginal_relevance(features, jnp.array([0.9, 0.9, 0.5]), k=2, trade_off=0.5).items.tolist()
    [0, 2]
    """
    features = at_least_float32(features)
    relevance = at_least_float32(relevance)
    n = features.shape[0]
    open_ = jnp.ones(n, bool) if valid is None else valid

    def step(
        carry: tuple[Array, Array], _: None
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        open_, nearest = carry
        value = jnp.where(open_, trade_off * relevance - (1 - trade_off) * nearest, -jnp.inf)
        item: Int[Array, ""] = jnp.argmax(value).astype(jnp.int32)
        has_item = open_[item]
        nearest = jnp.maximum(
            nearest, similarity(jnp.matmul(features, features[item], precision="highest"))
        )
        return (open_.at[item].set(False), nearest), (jnp.where(has_item, item, -1), value[item])

    _, (items, gains) = jax.lax.scan(step, (open_, jnp.zeros(n, features.dtype)), length=k)
    return MapResult(items, gains)
