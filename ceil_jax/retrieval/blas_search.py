"""Exact nearest items by dot product on a CPU, with the product by numpy's BLAS.

`index.top_k` uses it where there is one CPU device. One query reads the bank once, without a copy and without XLA's
selection over all scores; many queries run at the speed of the BLAS.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float, Int

QUERY_BATCH = 192
"""Queries in one product."""

SCORES_AT_ONCE = 6 * 2**20
"""Scores of one product: 24 MiB, below the 32 MiB from which glibc returns memory to the system each time. Few
queries are multiplied with many rows, because each product wakes the threads of the BLAS."""


def top_k_by_blas(
    queries: Float[np.ndarray, "q d"],
    items: Float[np.ndarray, "n d"],
    k: int,
    exclude: Int[np.ndarray, " q"],
    item_block: int,
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
    """The k items with the largest dot product for each query, as `index.top_k` returns them.

    Args:
        queries: float32 [q, d].
        items: [n, d]; may be memory-mapped.
        k: number of items for each query.
        exclude: int [q], one item that a query must not get, −1 for none.
        item_block: least number of rows that are read and multiplied at a time.

    Returns:
        Scores, float32 [q, k], and indices, int32 [q, k]; −inf and −1 in empty places.
    """
    rows_at_once = max(item_block, SCORES_AT_ONCE // min(len(queries), QUERY_BATCH))
    if items.dtype != np.float32:  # a block is copied
        rows_at_once = item_block
    scores = np.full((len(queries), k), -np.inf, np.float32)
    indices = np.full((len(queries), k), -1, np.int32)

    def merge(row: int, new: Float[np.ndarray, " m"], start: int) -> None:
        if 0 <= exclude[row] - start < len(new):
            new[exclude[row] - start] = -np.inf
        places = _largest(new, k, float(scores[row, -1]))
        # a stable sort keeps equal scores in the order of indices
        candidates = np.concatenate([scores[row], new[places]])
        order = np.argsort(-candidates, kind="stable")[:k]
        indices[row] = np.concatenate([indices[row], places + start])[order]
        scores[row] = candidates[order]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(items), rows_at_once):
            block = np.asarray(items[start : start + rows_at_once], np.float32)
            for first in range(0, len(queries), QUERY_BATCH):
                product = queries[first : first + QUERY_BATCH] @ block.T
                rows = range(first, first + len(product))
                list(pool.map(merge, rows, product, [start] * len(product)))
    return scores, indices


def _largest(scores: Float[np.ndarray, " m"], k: int, above: float) -> Int[np.ndarray, " c"]:
    """Places, ascending, of scores above a bound, with all of the k largest among them."""
    places = np.flatnonzero(scores > above)
    if len(places) <= 4 * k:
        return places
    near = scores[places]
    return places[near >= np.partition(near, len(near) - k)[len(near) - k]]
