"""Approximate nearest items through Faiss, behind the interface of `index.top_k`: for banks of many millions.

The index is an inverted file (IVF): the items are divided into about 4 √N cells around k-means centres, and a
query is compared exactly with the items of the cells whose centres are nearest to it. Neighbours in other cells
are missed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ceil_jax.errors import UserError

SMALLEST_CELL = 39
"""Items in a cell below which Faiss's k-means warns."""

TRAINED_ON = 64
"""Items for each cell from which the centres are computed."""

ADDED_AT_ONCE = 65_536
"""Items that are read and added to the index together."""


class ApproximateIndex:
    """An inverted file of a bank's items; the same bank and settings give the same index.

    Args:
        items: float32 [N, D]; may be memory-mapped. A copy is kept in memory, cell by cell.
        probes: number of cells with which a query is compared, 32 by default; more cells find more neighbours and
            take longer, and all cells make the search exact.
        cells: number of cells; by default 4 √N, or fewer if there are few items.

    Raises:
        UserError: faiss is not installed.
    """

    def __init__(self, items: np.ndarray, *, probes: int = 32, cells: int | None = None) -> None:
        try:
            import faiss
        except ModuleNotFoundError:
            raise UserError("faiss is not installed; pip install 'ceil-jax[approximate]'") from None
        count, width = items.shape
        cells = cells or max(1, min(round(4 * math.sqrt(count)), count // SMALLEST_CELL))
        self._index: Any = faiss.IndexIVFFlat(
            faiss.IndexFlatIP(width), width, cells, faiss.METRIC_INNER_PRODUCT
        )
        self.probes = probes
        sample = np.random.default_rng([0, 4]).permutation(count)[: cells * TRAINED_ON]
        self._index.train(np.asarray(items[np.sort(sample)], np.float32))
        for start in range(0, count, ADDED_AT_ONCE):
            self._index.add(np.ascontiguousarray(items[start : start + ADDED_AT_ONCE], np.float32))

    @property
    def probes(self) -> int:
        """Number of cells with which a query is compared; may be set."""
        return self._index.nprobe

    @probes.setter
    def probes(self, count: int) -> None:
        self._index.nprobe = min(count, self._index.nlist)

    def top_k(
        self, queries: np.ndarray, k: int, exclude: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest items that were found for each query, best first, ties by the lower index, as `index.top_k`.

        Args:
            queries: [Q, D].
            k: number of items for each query.
            exclude: int [Q], one item that a query must not get, −1 for none; none by default.

        Returns:
            Scores, float32 [Q, k], and indices, int32 [Q, k]; −inf and −1 also where the probed cells hold fewer
            than k items.

        Raises:
            ValueError: k is below 1.
        """
        from ceil_jax.retrieval.index import merge_top_k

        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        queries = np.ascontiguousarray(queries, np.float32)
        if len(queries) == 0:
            return np.zeros((0, k), np.float32), np.zeros((0, k), np.int32)
        scores, indices = self._index.search(queries, k + 1)
        lost = indices < 0
        if exclude is not None:
            lost |= indices == np.asarray(exclude)[:, None]
        indices = np.where(lost, -1, indices).astype(np.int32)
        return merge_top_k(np.where(lost, np.float32(-np.inf), scores), indices, k)
