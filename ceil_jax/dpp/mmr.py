"""Maximal marginal relevance (Carbonell & Goldstein, 1998): the usual peer of DPP-MAP."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ceil_jax.dpp.greedy import MapResult, at_once, map_shortlists

MMR_TRADE_OFF = 0.5
"""λ of MMR as a row of a comparison: relevance and novelty weigh the same. DPP-MAP's λ is on another scale."""


def maximal_marginal_relevance(
    features: Float[Array, "n d"],
    relevance: Float[Array, " n"],
    k: int,
    trade_off: float | Float[Array, ""],
    valid: Bool[Array, " n"] | None = None,
) -> MapResult:
    """Greedy argmax of λ r_i − (1 − λ) max_{j chosen} s_ij, with s = (1 + cos)/2.

    Args:
        features: unit rows.
        relevance: on the scale of s, r = (1 + cos)/2.
        k: examples to choose.
        trade_off: λ in [0, 1]; 1 is top-k.
        valid: items that may be chosen; all by default.

    Returns:
        Items and the value each had when chosen; items −1 and gains −inf when none is left.
    """
    n = features.shape[0]
    open_ = jnp.ones(n, bool) if valid is None else valid

    def step(carry, _):
        open_, nearest = carry
        value = jnp.where(open_, trade_off * relevance - (1 - trade_off) * nearest, -jnp.inf)
        item = jnp.argmax(value).astype(jnp.int32)
        found = open_[item]
        similarity = (1 + jnp.matmul(features, features[item], precision="highest")) / 2
        nearest = jnp.maximum(nearest, similarity)
        return (open_.at[item].set(False), nearest), (jnp.where(found, item, -1), value[item])

    _, (items, gains) = jax.lax.scan(step, (open_, jnp.zeros(n, features.dtype)), length=k)
    return MapResult(items, gains)


def mmr_shortlists(
    queries: np.ndarray, items: np.ndarray, shortlists: np.ndarray, k: int, trade_off: float
) -> MapResult:
    """MMR for many queries, as `greedy.greedy_map_shortlists` is for MAP.

    Args:
        queries: float32 [Q, D], unit rows.
        items: float32 [N, D], the bank, unit rows; may be memory-mapped.
        shortlists: int32 [Q, n], rows of the bank, −1 = empty place.

    Returns:
        `MapResult.items` [Q, k] are rows of the bank.
    """
    return map_shortlists(_choose, queries, items, shortlists, trade_off, k=k)


def _choose(queries: Array, shortlists: Array, items: Array, trade_off: Array, *, k: int) -> MapResult:
    def one(place: tuple[Array, Array]) -> MapResult:
        query, shortlist = place
        features = items[jnp.maximum(shortlist, 0)]
        relevance = (1 + jnp.matmul(features, query, precision="highest")) / 2
        chosen, gains = maximal_marginal_relevance(features, relevance, k, trade_off, shortlist >= 0)
        return MapResult(jnp.where(chosen >= 0, shortlist[chosen], -1), gains)

    return jax.lax.map(one, (queries, shortlists), batch_size=at_once(shortlists, items))
