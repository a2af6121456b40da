"""The nearest examples of each query by vectors, without those that must not be chosen for it."""

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
"""Cosines that differ by less count as equal: the rounding of float32 is that large, and a text's
vector depends slightly on its batch."""

_BATCH = 64
"""Number of queries in one call of the compiled score function."""

SCORES_AT_ONCE = 2**26
"""The maximum number of scores of queries with the whole bank that are held at once: 256 MiB."""

Score = Callable[[Any, Any], Any]
"""A function in jax: vectors of q queries, vectors of n examples → scores [q, n]."""


def nearest(
    queries: Float[np.ndarray, "q d"],
    items: Float[np.ndarray, "bank d"],
    own_positions: Sequence[Sequence[int]],
    n: int,
) -> tuple[Float[np.ndarray, "q n"], Int32[np.ndarray, "q n"]]:
    """Return the cosines and the positions of each query's n nearest examples, best first.

    Args:
        queries: unit rows.
        items: the bank, unit rows.
        own_positions: bank positions that each query must not get.
        n: number of examples, at most the size of the bank. If fewer are left, the last positions
            are −1 and their cosines −inf.
    """
    n = min(n, len(items))
    most = max(map(len, own_positions), default=0)
    cosines, positions = top_k(queries, items, n + most)
    if most == 0:
        return cosines, positions
    is_own = np.array(
        [np.isin(row, own) for row, own in zip(positions, own_positions, strict=True)]
    )
    cosines = np.where(is_own, np.float32(-np.inf), cosines)
    positions = np.where(is_own, -1, positions)
    # the others first, in the order of their cosines
    order = np.argsort(is_own, axis=1, kind="stable")[:, :n]
    return np.take_along_axis(cosines, order, 1), np.take_along_axis(positions, order, 1)


def nearest_drawn(
    queries: Queries,
    items: Float[np.ndarray, "bank ..."],
    n: int,
    seed: int,
    score: Score = dot_products,
) -> tuple[Float[np.ndarray, "q n"], Int32[np.ndarray, "q n"]]:
    """Return the nearest examples, with ties drawn at random for each query.

    Skills often have equal vectors; without the draw, all queries would get those that come first
    in the bank. See `nearest`.

    Args:
        queries: queries with vectors of the kind that `score` takes.
        items: the vectors of the bank.
        n: as in `nearest`.
        seed: seeds the draws, which also depend on each query's id.
        score: by default the dot product.
    """
    assert queries.vectors is not None
    n = min(n, len(items))
    count = len(queries.examples)
    scores_of_chosen = np.empty((count, n), np.float32)
    positions = np.empty((count, n), np.int32)
    # moved to the devices once, and not for every part
    on_devices = jax.device_put(items, whole(device_mesh()))
    # rounded down to a power of two, like the batch size, because otherwise the last batch of every
    # part would be padded
    most = max(1, SCORES_AT_ONCE // len(items))
    at_once = 2 ** (most.bit_length() - 1)
    for start in range(0, count, at_once):
        part = slice(start, start + at_once)
        block = np.array(
            map_batches(score, (queries.vectors[part],), (on_devices,), batch_size=_BATCH)
        )
        for row, query in enumerate(queries.examples[part], start):
            scores = block[row - start]
            scores[queries.own_positions[row]] = -np.inf
            positions[row] = drawn_order(scores, n, text_rng(query.id, seed))
            scores_of_chosen[row] = scores[positions[row]]
    return scores_of_chosen, np.where(np.isfinite(scores_of_chosen), positions, -1)


def drawn_order(
    scores: Float[np.ndarray, " bank"], n: int, generator: np.random.Generator
) -> np.ndarray:
    """Return the positions of the n largest scores, best first.

    Equal scores are chosen and ordered at random.
    """
    least = np.partition(scores, len(scores) - n)[len(scores) - n]
    near = np.flatnonzero(scores >= least - EQUAL)
    near = near[np.argsort(-scores[near], kind="stable")]
    ordered = scores[near]  # −inf for examples that must not be chosen
    # equal scores are one group; its members are put in random order
    groups = np.cumsum(np.append(False, ordered[1:] < ordered[:-1] - EQUAL))
    return near[np.lexsort((generator.permutation(len(near)), groups))][:n]
