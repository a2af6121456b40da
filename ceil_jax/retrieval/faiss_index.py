"""Approximate nearest items through Faiss, behind the interface of `index.top_k`: for banks of many millions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.retrieval.index import merge_top_k

SMALLEST_CELL = 39
"""Items in a cell below which Faiss's k-means warns."""

TRAINED_ON = 64
"""Items for each cell from which the centres are computed."""

ADDED_AT_ONCE = 65_536
"""Items that are read and added to the index together."""


class ApproximateIndex:
    """An inverted file (IVF) of a bank's items; the same bank and settings give the same index.

    The items are divided into about 4 √N cells around k-means centres, and a query is compared exactly with the items
    of the cells whose centres are nearest to it. Neighbours in other cells are missed.

    Args:
        items: float32 [N, D]; may be memory-mapped. A copy is kept in memory, cell by cell.
        probes: number of cells with which a query is compared, an attribute that may be set; all cells make the
            search exact.
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
        self.probes = probes
        self._index: Any = faiss.IndexIVFFlat(
            faiss.IndexFlatIP(width), width, cells, faiss.METRIC_INNER_PRODUCT
        )
        sample = np.random.default_rng([0, 4]).permutation(count)[: cells * TRAINED_ON]
        self._index.train(np.asarray(items[np.sort(sample)], np.float32))
        for start in range(0, count, ADDED_AT_ONCE):
            self._index.add(np.ascontiguousarray(items[start : start + ADDED_AT_ONCE], np.float32))

    def top_k(
        self, queries: np.ndarray, k: int, exclude: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest items that were found for each query, as `index.top_k`.

        −inf and −1 also stand where the probed cells hold fewer than k items.
        """
        queries = np.ascontiguousarray(queries, np.float32)
        self._index.nprobe = min(self.probes, self._index.nlist)
        scores, indices = self._index.search(queries, k + 1)
        lost = indices < 0
        if exclude is not None:
            lost |= indices == np.asarray(exclude)[:, None]
        indices = np.where(lost, -1, indices).astype(np.int32)
        return merge_top_k(np.where(lost, np.float32(-np.inf), scores), indices, k)
