"""The nearest examples of queries, from vectors, without the examples that a query may not get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int32

from ceil_jax.distributed.devices import device_mesh, map_batches, whole
from ceil_jax.retrieval.index import dot_products, top_k
from ceil_jax.retrieval.retriever import Queries
from ceil_jax.tasks.draws import text_rng

EQUAL = 1e-6
"""Cosines that differ by less count as equal: float32 rounds by that much, and a text's vector
depends on its batch."""

_BATCH = 64
"""Queries in one call of the compiled score."""

SCORES_AT_ONCE = 2**26
"""Scores of queries with the whole bank that are held at once where all of them are needed: 256
MiB."""

Score = Callable[[Any, Any], Any]
"""Vectors of q queries and of n examples to their scores [q, n], in jax."""


def nearest(
    queries: Float[np.ndarray, "q d"],
    items: Float[np.ndarray, "bank d"],
    own: Sequence[Sequence[int]],
    n: int,
) -> tuple[Float[np.ndarray, "q n"], Int32[np.ndarray, "q n"]]:
    """Return the cosines and the positions of each query's n nearest examples, best first.

    Args:
        queries: unit rows.
        items: the bank, unit rows.
        own: positions that each query may not get.
        n: at most the size of the bank. Where fewer examples are left, positions are −1 and cosines
            −inf at the end.
    """
    n = min(n, len(items))
    most = max(map(len, own), default=0)
    cosines, positions = top_k(queries, items, n + most)
    if most == 0:
        return cosines, positions
    lost = np.array([np.isin(row, rows) for row, rows in zip(positions, own, strict=True)])
    others = np.argsort(lost, axis=1, kind="stable")[:, :n]
    cosines = np.take_along_axis(np.where(lost, np.float32(-np.inf), cosines), others, 1)
    return cosines, np.take_along_axis(np.where(lost, -1, positions), others, 1)


def nearest_drawn(
    queries: Queries,
    items: Float[np.ndarray, "bank ..."],
    n: int,
    seed: int,
    score: Score = dot_products,
) -> tuple[Float[np.ndarray, "q n"], Int32[np.ndarray, "q n"]]:
    """`nearest` where many examples may have equal vectors, as skills have: equally near examples
    are drawn at random for each query, else all queries would get those that come first in the
    bank.

    Args:
        queries: with vectors of the kind that `score` takes.
        items: the vectors of the bank.
        n: as in `nearest`.
        seed: of the draws, which also depend on each query's id.
        score: by default the dot product.
    """
    assert queries.vectors is not None
    n = min(n, len(items))
    count = len(queries.examples)
    scores_of_chosen = np.empty((count, n), np.float32)
    positions = np.empty((count, n), np.int32)
    # moved to the devices once, not for every part
    on_devices = jax.device_put(items, whole(device_mesh()))
    # a power of two, as the batch size is, or the last batch of every part would be padded
    at_once = 1 << (max(1, SCORES_AT_ONCE // len(items)).bit_length() - 1)
    for start in range(0, count, at_once):
        part = slice(start, start + at_once)
        block = np.array(
            map_batches(score, (queries.vectors[part],), (on_devices,), batch_size=_BATCH)
        )
        for row, query in enumerate(queries.examples[part], start):
            scores = block[row - start]
            scores[queries.own[row]] = -np.inf
            positions[row] = drawn_order(scores, n, text_rng(query.id, seed))
            scores_of_chosen[row] = scores[positions[row]]
    return scores_of_chosen, np.where(np.isfinite(scores_of_chosen), positions, -1)


def drawn_order(
    scores: Float[np.ndarray, " bank"], n: int, generator: np.random.Generator
) -> np.ndarray:
    """Return the positions of the n largest scores, best first; a random choice of equal scores, in
    random order."""
    least = np.partition(scores, len(scores) - n)[len(scores) - n]
    near = np.flatnonzero(scores >= least - EQUAL)
    near = near[np.argsort(-scores[near], kind="stable")]
    ordered = scores[near]  # -inf for what must not be chosen
    # equal scores are one group; its members are put in random order
    groups = np.cumsum(np.append(False, ordered[1:] < ordered[:-1] - EQUAL))
    return near[np.lexsort((generator.permutation(len(near)), groups))][:n]
