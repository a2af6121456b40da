"""Exact nearest items, in blocks: memory stays bounded whatever the bank's size."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ceil_jax.parallel import map_batches

ITEM_BLOCK = 32_768
QUERY_BATCH = 256
GROUP = 64
"""Neighbouring items whose best score stands for all of them in the first selection."""

Score = Callable[[Float[Array, "q ..."], Float[Array, "n ..."]], Float[Array, "q n"]]
"""Every query with every item; what each of them is (a vector, or several) is the score's own business."""


def dot_products(queries: Float[Array, "q d"], items: Float[Array, "n d"]) -> Float[Array, "q n"]:
    """In full float32, on GPUs too."""
    return jnp.matmul(queries, items.T, precision="highest")


def top_k(
    queries: Float[Array, "q ..."] | Float[np.ndarray, "q ..."],
    items: Float[Array, "n ..."] | Float[np.ndarray, "n ..."],
    k: int,
    exclude: Int[Array, " q"] | Int[np.ndarray, " q"] | None = None,
    *,
    item_block: int = ITEM_BLOCK,
    score: Score = dot_products,
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
    """The k items with the largest score (dot product) for each query, best first: (scores, indices int32).

    Exact, in float32; equal scores are ordered by the lower index. `exclude[i]` is one item that query i
    must not get (itself, when queries are items), −1 for none. Places beyond the bank's size hold score −inf
    and index −1. `items` may be a memory-mapped array: `item_block` rows at a time are read and moved to the
    devices, over which the queries are spread.

    Raises:
        ValueError: k below 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    q, n = len(queries), len(items)
    queries = np.asarray(queries, np.float32)
    exclude = np.full(q, -1, np.int32) if exclude is None else np.asarray(exclude, np.int32)
    scores: Array | np.ndarray = np.full((q, k), -np.inf, np.float32)
    indices: Array | np.ndarray = np.full((q, k), -1, np.int32)
    size = min(item_block, -(-n // GROUP) * GROUP)
    if q == 0 or n == 0:
        return np.asarray(scores), np.asarray(indices)
    for start in range(0, n, size):
        block = np.asarray(items[start : start + size], np.float32)
        count = len(block)
        if count < size:
            block = np.concatenate([block, np.zeros((size - count, *block.shape[1:]), np.float32)])
        scores, indices = map_batches(
            _merge_block,
            (queries, exclude, scores, indices),
            (block, np.int32(start), np.int32(count)),
            batch_size=QUERY_BATCH,
            score=score,
        )
    return np.asarray(scores), np.asarray(indices)


def _merge_block(
    queries: Float[Array, "b ..."],
    exclude: Int[Array, " b"],
    scores: Float[Array, "b k"],
    indices: Int[Array, "b k"],
    block: Float[Array, "n ..."],
    start: Int[Array, ""],
    count: Int[Array, ""],
    *,
    score: Score,
) -> tuple[Float[Array, "b k"], Int[Array, "b k"]]:
    """The best k of those so far (all with lower indices) and of the block's first `count` rows."""
    k = scores.shape[1]
    new = score(queries, block)
    place = jnp.arange(block.shape[0], dtype=jnp.int32)[None, :]
    new = jnp.where((place < count) & (place != (exclude - start)[:, None]), new, -jnp.inf)
    new, places = _grouped_top_k(new, min(k, block.shape[0]))
    # `top_k` puts the earlier of equals first, so the order of the concatenation is the order of indices
    best, at = jax.lax.top_k(jnp.concatenate([scores, new], axis=1), k)
    indices = jnp.take_along_axis(jnp.concatenate([indices, places + start], axis=1), at, axis=1)
    return best, jnp.where(best > -jnp.inf, indices, -1)


def _grouped_top_k(scores: Float[Array, "b n"], k: int) -> tuple[Float[Array, "b k"], Int[Array, "b k"]]:
    """`lax.top_k`, for n in the ten thousands: that sorts what it is given, so give it less.

    The k groups with the largest maxima (the earlier of equals) hold the k largest scores: an item outside
    them has in each of them one that comes before it.
    """
    b, n = scores.shape
    if n < 4 * k * GROUP:
        best, places = jax.lax.top_k(scores, k)
        return best, places
    grouped = scores.reshape(b, n // GROUP, GROUP)
    _, groups = jax.lax.top_k(grouped.max(axis=2), k)
    groups = jnp.sort(groups, axis=1)
    candidates = jnp.take_along_axis(grouped, groups[:, :, None], axis=1).reshape(b, k * GROUP)
    best, at = jax.lax.top_k(candidates, k)
    return best, jnp.take_along_axis(groups, at // GROUP, axis=1) * GROUP + at % GROUP
