"""Greedy MAP from embeddings to indices, at the size of SST-5's validation set; in the paper's
Table 8 it takes about 6 s at n = 100 and 88 s at n = 800.

Ours and the peers start from the same arrays: queries, bank and shortlists. On a GPU the bank lies
on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial

import jax
import numpy as np

from benchmarks import workloads
from benchmarks.harness import OURS, Case, Disagreement, Settings
from benchmarks.peers import numpy_map
from ceil_jax.retrieval.index import top_k
from ceil_jax.retrieval.shortlists import greedy_map_shortlists

QUERIES = 1101
BANK = 20_000
TRADE_OFF = 0.05

SIZES = ((100, 16, 5), (100, 50, 5), (800, 50, 3))
"""Cases as (n, K, target for the speedup over numpy)."""

TOLERANCE = 1e-3
"""The largest difference in log det of a set. Where two items tie up to rounding, either is a right
choice, and all later steps may differ."""


def cases(settings: Settings) -> Iterator[Case]:
    count, size = (12, 500) if settings.small else (QUERIES, BANK)
    for d in (384, 768):
        rng = np.random.default_rng(0)
        items = workloads.bank(rng, size, 16 if settings.small else d)
        queries = workloads.queries(rng, items, count)
        workers = os.cpu_count() or 1
        with numpy_map.pool(workers, items) as pool:
            for n, k, wanted in SIZES:
                if settings.small:
                    k = min(k // 3, n // 10)
                    n = n // 5
                _, shortlists = top_k(queries, items, n)
                bank = jax.device_put(items)
                in_pool = partial(numpy_map.from_embeddings_in_pool, pool, workers)
                arrays = (queries, items, shortlists, k, TRADE_OFF)
                yield Case(
                    f"n = {n}, K = {k}, d = {items.shape[1]}",
                    {
                        OURS: partial(_ours, queries, bank, shortlists, k),
                        "numpy": partial(numpy_map.from_embeddings, *arrays),
                        "numpy, one BLAS thread": partial(
                            numpy_map.from_embeddings_one_thread, *arrays
                        ),
                        "numpy, process pool": partial(in_pool, queries, shortlists, k, TRADE_OFF),
                    },
                    partial(same_sets, queries, items),
                    at_least={"numpy": wanted, "numpy, one BLAS thread": wanted},
                    work={"queries": count},
                )


def _ours(queries: np.ndarray, bank: jax.Array, shortlists: np.ndarray, k: int) -> np.ndarray:
    return np.asarray(greedy_map_shortlists(queries, bank, shortlists, k, TRADE_OFF).items)


def same_sets(queries: np.ndarray, items: np.ndarray, results: Mapping[str, np.ndarray]) -> str:
    """Check that each peer's sets equal ours, or differ only after a tie: their log dets in float64 are the same."""
    ours = results[OURS]
    different = 0
    for peer, theirs in results.items():
        for row in np.flatnonzero((np.sort(ours, axis=1) != np.sort(theirs, axis=1)).any(axis=1)):
            difference = log_det(queries[row], items[ours[row]]) - log_det(
                queries[row], items[theirs[row]]
            )
            if (theirs[row] < 0).any() or abs(difference) > TOLERANCE:
                raise Disagreement(
                    f"query {row}: {OURS} {ours[row]}, {peer} {theirs[row]}, log det {difference:+}"
                )
            different += peer == "numpy"
    return f"same sets but for {different} ties among {len(ours)} queries"


def log_det(query: np.ndarray, chosen: np.ndarray) -> float:
    """Return log det L'_S of a set of unit rows in float64, up to a constant that sets of one size share."""
    rows = chosen.astype(np.float64)
    relevance = (1 + rows @ query.astype(np.float64)) / 2
    return float(relevance.sum() / TRADE_OFF + np.linalg.slogdet((1 + rows @ rows.T) / 2)[1])
