"""Exact nearest items, in blocks: memory stays bounded whatever the bank's size."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ceil_jax.distributed.devices import map_batches

ITEM_BLOCK = 32_768
QUERY_BATCH = 192
"""Their scores with a block are 24 MiB. glibc gives 32 MiB and more back to the system each time, and new pages
cost a CPU more than the selection."""

GROUP = 32
"""Neighbouring items whose best score stands for all of them in the first selection: near √(items / k)."""

ALIGNMENT = 64
"""Bytes. JAX computes on numpy arrays that begin at a multiple of it; others are copied, to new pages, which
takes five times as long as a copy by numpy."""

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
        count = min(size, n - start)
        block = _filled_up(np.asarray(items[start : start + count]), size)
        scores, indices = map_batches(
            _merge_block,
            (queries, exclude, scores, indices),
            (block, np.int32(start), np.int32(count)),
            batch_size=QUERY_BATCH,
            score=score,
        )
    return np.asarray(scores), np.asarray(indices)


def _filled_up(rows: np.ndarray, size: int) -> Float[np.ndarray, "n ..."]:
    """Rows in float32, the last one repeated, so that no group's best score is raised; on a CPU, aligned."""
    aligned = jax.default_backend() != "cpu" or rows.ctypes.data % ALIGNMENT == 0
    if aligned and len(rows) == size and rows.dtype == np.float32:
        return rows
    shape = (size, *rows.shape[1:])
    memory = np.empty(4 * math.prod(shape) + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    block = memory[first : first + 4 * math.prod(shape)].view(np.float32).reshape(shape)
    block[: len(rows)] = rows
    block[len(rows) :] = rows[-1]
    return block


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
    # one more than k, because the excluded item may be among them
    new, places = _candidates(score(queries, block), count, k + 1)
    new = jnp.where((places < count) & (places != (exclude - start)[:, None]), new, -jnp.inf)
    # `top_k` puts the earlier of equals first, so the order of the concatenation is the order of indices
    best, at = jax.lax.top_k(jnp.concatenate([scores, new], axis=1), k)
    indices = jnp.take_along_axis(jnp.concatenate([indices, places + start], axis=1), at, axis=1)
    return best, jnp.where(best > -jnp.inf, indices, -1)


def _candidates(
    scores: Float[Array, "b n"], count: Int[Array, ""], k: int
) -> tuple[Float[Array, "b m"], Int[Array, "b m"]]:
    """Scores, and their places in ascending order, that hold the k largest of the first `count` (of equals, the
    earlier): `top_k` sorts what it is given, so it is given less.

    The k groups with the largest maxima (the earlier of equals) hold them: an item outside these groups has
    in each of them one that comes before it. Nothing but the maximum reads all scores, which takes as long as
    reading them.
    """
    b, n = scores.shape
    if n < 4 * k * GROUP:
        return scores, jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32), (b, n))
    grouped = scores.reshape(b, n // GROUP, GROUP)
    begun = jnp.arange(0, n, GROUP) < count
    _, groups = jax.lax.top_k(jnp.where(begun[None, :], grouped.max(axis=2), -jnp.inf), k)
    groups = jnp.sort(groups, axis=1)[:, :, None]
    places = groups * GROUP + jnp.arange(GROUP, dtype=jnp.int32)[None, None, :]
    return jnp.take_along_axis(grouped, groups, axis=1).reshape(b, -1), places.reshape(b, -1)
