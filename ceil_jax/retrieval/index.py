"""Exact search for the nearest items in blocks, in bounded memory for a bank of any size."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ceil_jax.distributed.devices import map_batches
from ceil_jax.retrieval.blas_search import top_k_by_blas

ITEM_BLOCK = 32_768
"""Number of items in a block."""

QUERY_BATCH = 192
"""Number of queries in a batch. Their scores with a block take 24 MiB: from 32 MiB on, glibc
returns memory to the system each time, and new pages take a CPU longer than the selection."""

GROUP = 32
"""Number of neighbouring items that are represented by their best score in the first selection;
about √(items / k)."""


def dot_products(queries: Float[Array, "q d"], items: Float[Array, "n d"]) -> Float[Array, "q n"]:
    """Return the dot product of every query with every item, in full float32, also on GPUs."""
    return jnp.matmul(queries, items.T, precision="highest")


def top_k(
    queries: Float[Array, "q d"] | Float[np.ndarray, "q d"],
    items: Float[Array, "n d"] | Float[np.ndarray, "n d"],
    k: int,
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
    """Return the k items with the largest dot product for each query, best first.

    The search is exact, in float32.

    With a single CPU device, numpy's BLAS computes the products (`blas_search`), which is faster
    there than XLA. Otherwise the queries are spread over the devices. The items may be
    memory-mapped: they are read `ITEM_BLOCK` rows at a time.

    Returns:
        Scores (float32) and indices (int32). Of equal scores, the lower index comes first. If k is
            larger than the bank, the last positions hold score −inf and index −1.

    Raises:
        ValueError: k is below 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    q = len(queries)
    n = len(items)
    queries = np.asarray(queries, np.float32)
    scores: Array | np.ndarray = np.full((q, k), -np.inf, np.float32)
    indices: Array | np.ndarray = np.full((q, k), -1, np.int32)
    if q == 0 or n == 0:
        return np.asarray(scores), np.asarray(indices)
    if isinstance(items, np.ndarray) and _one_cpu():
        return top_k_by_blas(queries, items, k)
    # blocks consist of whole groups (`_candidates`)
    size = min(ITEM_BLOCK, math.ceil(n / GROUP) * GROUP)
    for start in range(0, n, size):
        count = min(size, n - start)
        block = np.asarray(items[start : start + count], np.float32)
        if count < size:  # copies of the last item do not raise any group's best score
            block = np.pad(block, ((0, size - count), (0, 0)), mode="edge")
        scores, indices = map_batches(
            _merge_block,
            (queries, scores, indices),
            (block, np.int32(start), np.int32(count)),
            batch_size=QUERY_BATCH,
        )
    return np.asarray(scores), np.asarray(indices)


def _one_cpu() -> bool:
    return jax.default_backend() == "cpu" and jax.device_count() == 1


def _merge_block(
    queries: Float[Array, "b d"],
    scores: Float[Array, "b k"],
    indices: Int[Array, "b k"],
    block: Float[Array, "n d"],
    start: Int[Array, ""],
    count: Int[Array, ""],
) -> tuple[Float[Array, "b k"], Int[Array, "b k"]]:
    """Return the best k of the results so far and of a block.

    The indices of the results are all lower. Only the block's first `count` rows count.
    """
    k = scores.shape[1]
    new, positions = _candidates(dot_products(queries, block), count, k)
    new = jnp.where(positions < count, new, -jnp.inf)
    # `top_k` keeps the order of equal values, and the concatenation is in the order of indices
    best, at = jax.lax.top_k(jnp.concatenate([scores, new], axis=1), k)
    indices = jnp.take_along_axis(jnp.concatenate([indices, positions + start], axis=1), at, axis=1)
    return best, jnp.where(best > -jnp.inf, indices, -1)


def _candidates(
    scores: Float[Array, "b n"], count: Int[Array, ""], k: int
) -> tuple[Float[Array, "b m"], Int[Array, "b m"]]:
    """Return candidates for the k largest of the first `count` scores.

    So `top_k` has less to sort. They are scores [b, m], and their positions in ascending order, int
    [b, m].

    The k largest scores are in the k groups with the largest maxima, because each of these groups
    has an item that ranks before every item outside them. Of equal values the earlier one comes
    first. Only taking the maxima reads all scores.
    """
    b, n = scores.shape
    if n < 4 * k * GROUP:
        return scores, jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32), (b, n))
    grouped = scores.reshape(b, n // GROUP, GROUP)
    begun = jnp.arange(0, n, GROUP) < count
    _, groups = jax.lax.top_k(jnp.where(begun[None, :], grouped.max(axis=2), -jnp.inf), k)
    groups = jnp.sort(groups, axis=1)[:, :, None]
    positions = groups * GROUP + jnp.arange(GROUP, dtype=jnp.int32)[None, None, :]
    return jnp.take_along_axis(grouped, groups, axis=1).reshape(b, -1), positions.reshape(b, -1)
