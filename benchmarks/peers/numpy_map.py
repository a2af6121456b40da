"""Greedy MAP in numpy as in Algorithm 1 of Chen, Zhang & Zhou (2018), one query at a time, and in a
process pool.

Numpy alone: a worker of the pool must start fast and hold no accelerator.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.pool import Pool

import numpy as np

_shared: dict[str, np.ndarray] = {}


def greedy_map(kernel: np.ndarray, k: int, epsilon: float = 1e-10) -> list[int]:
    """Run Algorithm 1: j ← argmax d_i²; e_i = (L_ji − ⟨c_j, c_i⟩) / d_j, c_i ← [c_i, e_i], d_i² ←
    d_i² − e_i²; until k items are chosen or d_j² < ε."""
    factor = np.zeros((k, len(kernel)), kernel.dtype)
    residual = np.diagonal(kernel).copy()
    chosen: list[int] = []
    while len(chosen) < k:
        best = int(np.argmax(residual))
        if residual[best] < epsilon:
            break
        t = len(chosen)
        row = (kernel[best] - factor[:t, best] @ factor[:t]) / np.sqrt(residual[best])
        factor[t] = row
        residual -= row * row
        residual[best] = -np.inf
        chosen.append(best)
    return chosen


def from_embeddings(
    queries: np.ndarray, items: np.ndarray, shortlists: np.ndarray, k: int, trade_off: float
) -> np.ndarray:
    """Return the sets of all queries, int32 [Q, k] with −1 after the last item: form each query's
    kernel L' from unit rows, then run Algorithm 1."""
    chosen = np.full((len(queries), k), -1, np.int32)
    for row, (query, shortlist) in enumerate(zip(queries, shortlists, strict=True)):
        features = items[shortlist]
        relevance = (1 + features @ query) / 2
        root_quality = np.exp((relevance - relevance.max()) / (2 * trade_off))
        kernel = root_quality[:, None] * ((1 + features @ features.T) / 2) * root_quality
        picks = greedy_map(kernel, k)
        chosen[row, : len(picks)] = shortlist[picks]
    return chosen


def from_embeddings_one_thread(
    queries: np.ndarray, items: np.ndarray, shortlists: np.ndarray, k: int, trade_off: float
) -> np.ndarray:
    """Run `from_embeddings` with one BLAS thread, because more threads cost more than they give on small matrices."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return from_embeddings(queries, items, shortlists, k, trade_off)


def pool(workers: int, items: np.ndarray) -> Pool:
    """Return a pool of worker processes that hold the bank; each computes with one thread."""
    return multiprocessing.get_context("spawn").Pool(workers, _start_worker, (items,))


def from_embeddings_in_pool(
    workers: Pool, count: int, queries: np.ndarray, shortlists: np.ndarray, k: int, trade_off: float
) -> np.ndarray:
    """Run `from_embeddings` with the queries split among `count` workers."""
    parts = zip(np.array_split(queries, count), np.array_split(shortlists, count), strict=True)
    return np.concatenate(workers.starmap(_worker, [(*part, k, trade_off) for part in parts]))


def _start_worker(items: np.ndarray) -> None:
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    _shared["items"] = items


def _worker(queries: np.ndarray, shortlists: np.ndarray, k: int, trade_off: float) -> np.ndarray:
    return from_embeddings(queries, _shared["items"], shortlists, k, trade_off)
