"""Greedy MAP and MMR for many queries, each over its own shortlist of bank rows.

The functions of `dpp/` choose for one query. Here they are lifted over queries and spread over the
devices, in bounded memory; the bank may be memory-mapped. In all functions

- queries: float [q, d] and items: float [m, d] (the bank) have unit rows;
- shortlists: int [q, n] are positions in the bank, −1 at empty positions; of tied items the first
  in the shortlist is chosen;
- the result's items, int [q, k], are positions in the bank, −1 if none was left.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ceil_jax.distributed.devices import map_batches
from ceil_jax.dpp.greedy import MapResult, greedy_map_from_features
from ceil_jax.dpp.kernel import relevance, similarity
from ceil_jax.dpp.lifting import queries_at_once
from ceil_jax.dpp.mmr import maximal_marginal_relevance

QUERIES_PER_CALL = 1024
"""Number of queries in one call of the compiled function on a CPU, where each core makes its own
calls."""

Queries = Float[Array, "q d"] | Float[np.ndarray, "q d"]
Items = Float[Array, "m d"] | Float[np.ndarray, "m d"]
Shortlists = Int[Array, "q n"] | Int[np.ndarray, "q n"]


def greedy_map_shortlists(
    queries: Queries, items: Items, shortlists: Shortlists, k: int, trade_off: float
) -> MapResult:
    """Greedy MAP of the conditional kernel (`greedy.greedy_map_from_features`) for each query.

    Args:
        queries: the vectors of Q queries.
        items: the vectors of the bank, unit rows.
        shortlists: positions in the bank; −1 at empty positions at the end.
        k: examples to choose.
        trade_off: λ, above 0.

    Returns:
        Positions in the bank and gains, [Q, k]; −1 and −inf if none is left.
    """
    return _choose_among(_greedy, queries, items, shortlists, k, trade_off)


def mmr_shortlists(
    queries: Queries, items: Items, shortlists: Shortlists, k: int, trade_off: float
) -> MapResult:
    """Maximal marginal relevance (`mmr.maximal_marginal_relevance`) for each query.

    Args:
        queries: the vectors of Q queries, unit rows.
        items: the vectors of the bank, unit rows.
        shortlists: positions in the bank; −1 at empty positions at the end.
        k: examples to choose.
        trade_off: λ in [0, 1], where 1 gives top-k.

    Returns:
        Positions in the bank and values, [Q, k]; −1 and −inf if none is left.
    """
    return _choose_among(_mmr, queries, items, shortlists, k, trade_off)


def _greedy(query: Array, features: Array, valid: Array, k: int, trade_off: Array) -> MapResult:
    r = relevance(query, features, valid)
    return greedy_map_from_features(features, r, k, trade_off, valid)


def _mmr(query: Array, features: Array, valid: Array, k: int, trade_off: Array) -> MapResult:
    r = similarity(jnp.matmul(features, query, precision="highest"))
    return maximal_marginal_relevance(features, r, k, trade_off, valid)


def _choose_among(
    choose: Callable[..., MapResult],
    queries: Queries,
    items: Items,
    shortlists: Shortlists,
    k: int,
    trade_off: float,
) -> MapResult:
    """Apply `choose` to each query, on all devices.

    `choose(query, features, valid, k, trade_off)` returns positions in a query's shortlist.

    A device receives only the bank rows that are in a shortlist, padded to a power of two so that
    few shapes are compiled; or the whole bank if that is no larger.
    """
    shortlists = np.asarray(shortlists)
    rows = np.unique(np.maximum(shortlists, 0)).astype(np.int32)
    # rounded up to a power of two
    size = 2 ** (len(rows) - 1).bit_length()
    if size < len(items):
        items = items[np.pad(rows, (0, size - len(rows)))]
        # positions in the bank → positions among these rows
        shortlists = np.where(shortlists >= 0, np.searchsorted(rows, shortlists), -1).astype(
            np.int32
        )
    else:
        rows = np.arange(len(items), dtype=np.int32)
    together = queries_at_once(shortlists.shape[1] * items.shape[1])
    on_cpu = jax.default_backend() == "cpu"
    result = map_batches(
        _batch,
        (queries, shortlists),
        (items, np.asarray(trade_off, queries.dtype)),
        batch_size=QUERIES_PER_CALL if on_cpu else together,
        choose=choose,
        k=k,
    )
    chosen, gains = jax.tree.map(np.asarray, result)
    return MapResult(np.where(chosen >= 0, rows[chosen], -1), gains)


def _batch(
    queries: Float[Array, "b d"],
    shortlists: Int[Array, "b n"],
    items: Float[Array, "m d"],
    trade_off: Float[Array, ""],
    *,
    choose: Callable[..., MapResult],
    k: int,
) -> MapResult:
    def choose_for_query(query_and_shortlist: tuple[Array, Array]) -> MapResult:
        query, shortlist = query_and_shortlist
        features = items[jnp.maximum(shortlist, 0)]
        chosen, gains = choose(query, features, shortlist >= 0, k, trade_off)
        return MapResult(jnp.where(chosen >= 0, shortlist[chosen], -1), gains)

    # in the same chunks as dpp/ lifts its functions, so that the gathered features stay in the
    # caches
    together = queries_at_once(shortlists.shape[1] * items.shape[1])
    return jax.lax.map(choose_for_query, (queries, shortlists), batch_size=together)
