"""Exact search for the nearest items by dot product on a CPU, with numpy's BLAS.

`index.top_k` uses it if there is a single CPU device. The bank is read once for up to
`BLAS_QUERIES` queries, and each score once: scores above a query's k-th best so far are collected,
and sorted when there are many.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

BLAS_QUERIES = 1536
"""The maximum number of queries in one product, which has to stay below 2 ** 16."""

BLAS_SCORES = 6 * 2**20
"""Scores in one product: 24 MiB, below the 32 MiB from which glibc returns memory to the system
each time. With few queries, many rows are multiplied at once, because each product has to wake the
threads of the BLAS."""

ROWS_COPIED = 32_768
"""The maximum number of rows that are converted to float32 at a time."""


def top_k_by_blas(
    queries: Float[np.ndarray, "q d"], items: Float[np.ndarray, "n d"], k: int
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
    """Return the k items with the largest dot product for each query.

    It is `index.top_k` for at least one query and one item.
    """
    rows_at_once = BLAS_SCORES // min(len(queries), BLAS_QUERIES)
    if items.dtype != np.float32:
        rows_at_once = min(ROWS_COPIED, rows_at_once)
    begins = range(0, len(queries), BLAS_QUERIES)
    batches = [slice(begin, begin + BLAS_QUERIES) for begin in begins]
    best = [_Best(queries[batch], k) for batch in batches]
    for start in range(0, len(items), rows_at_once):
        block = np.asarray(items[start : start + rows_at_once], np.float32)
        for part in best:
            part.look(block, start)
    scores, indices = zip(*(part.sort() for part in best), strict=True)
    return np.concatenate(scores), np.concatenate(indices)


class _Best:
    """The k best items so far for some queries, and candidates that are not yet sorted in."""

    def __init__(self, queries: Float[np.ndarray, "b d"], k: int) -> None:
        self._queries = queries
        self._scores = np.full((len(queries), k), -np.inf, np.float32)
        self._indices = np.full((len(queries), k), -1, np.int32)
        self._bound = self._scores[:, -1:]
        """A lower bound of each query's k-th best score: later items with at most this score are
        not in the top k."""
        self._candidates: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        """The (rows, scores, indices) of the candidates of each block, sorted by row and then by
        index."""

    def look(self, block: Float[np.ndarray, "m d"], start: int) -> None:
        """Collect the items of the next block that may be among a query's k best.

        `start` is the index of its first item.
        """
        scores = self._queries @ block.T
        near = scores > self._bound
        k = self._scores.shape[1]
        # if there are many, only the k best of the block are collected
        if np.count_nonzero(near) > 4 * self._scores.size:
            kth_best = np.partition(scores, -k, axis=1)[:, -k, None]
            near &= scores >= kth_best
            self._bound = np.maximum(self._bound, kth_best)
        flat_positions = np.flatnonzero(near)
        rows, items = np.divmod(flat_positions, len(block))
        self._candidates.append((rows, scores.ravel()[flat_positions], items + start))
        if sum(len(rows) for rows, *_ in self._candidates) > 2 * self._scores.size:
            self.sort()

    def sort(self) -> tuple[Float[np.ndarray, "b k"], Int[np.ndarray, "b k"]]:
        """Return the k best items so far, best first; ties go to the lower index."""
        count, k = self._scores.shape
        # the k best of every row so far, then the candidates of each block
        best_so_far = (np.repeat(np.arange(count), k), self._scores.ravel(), self._indices.ravel())
        blocks = [best_so_far, *self._candidates]
        rows, scores, indices = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        rows = rows.astype(np.uint16)  # which numpy sorts in linear time
        # by row, then by falling score; the sort is stable, and a row's candidates are in the order
        # of indices
        order = np.lexsort((-scores, rows))
        begins = np.searchsorted(rows, np.arange(count), sorter=order)
        # the first k of each row
        order = order[begins[:, None] + np.arange(k)]
        self._scores = scores[order]
        self._indices = indices[order].astype(np.int32)
        self._candidates = []
        self._bound = self._scores[:, -1:]
        return self._scores, self._indices
