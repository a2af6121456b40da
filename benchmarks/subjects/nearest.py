"""Exact search for the nearest items by dot product, compared with faiss's flat index, on the CPU.

Both hold the bank in the CPU's memory; on a GPU, ours moves it there block by block in every call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from benchmarks import workloads
from benchmarks.harness import OURS, Case, Disagreement, Settings
from ceil_jax.retrieval.index import top_k

QUERIES = 1101
BANK = 400_000
DIM = 768
K = 100

TOLERANCE = 1e-5
"""The difference of the scores of two unit vectors beyond which they are not a tie."""


def cases(settings: Settings) -> Iterator[Case]:
    import faiss

    count, n, d, k = (20, 3000, 16, 10) if settings.small else (QUERIES, BANK, DIM, K)
    rng = np.random.default_rng(0)
    items = workloads.bank(rng, n, d)
    queries = workloads.queries(rng, items, count)
    index = faiss.IndexFlatIP(d)
    index.add(items)
    yield Case(
        f"{count:,} queries, {n:,} x {d}, top {k}",
        {OURS: partial(top_k, queries, items, k), "faiss flat": partial(index.search, queries, k)},
        same_neighbours,
        at_least={"faiss flat": 20 if settings.device == "gpu" else 1},
        work={"queries": count, "FLOP": 2 * count * n * d},
    )


def same_neighbours(results: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> str:
    """Check that scores are equal at every rank, so that items differ only in ties, and return how many differ."""
    scores, items = map(np.asarray, results[OURS])
    others = 0
    for name, (their_scores, their_items) in results.items():
        if np.abs(scores - their_scores).max() > TOLERANCE:
            raise Disagreement(
                f"{name}: a score differs by {np.abs(scores - their_scores).max():.2g}"
            )
        others = max(
            others, sum(len(set(a) - set(b)) for a, b in zip(items, their_items, strict=True))
        )
    return f"same scores; {others} of {items.size:,} items other, by ties"
