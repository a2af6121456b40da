"""A bank as vectors: which texts of an example are embedded, and which examples are nearest to a
query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ceil_jax.distributed.devices import device_mesh, map_batches, whole
from ceil_jax.encoders.text_encoder import check_finite
from ceil_jax.retrieval.index import dot_products, top_k
from ceil_jax.retrieval.own_rows import OwnRows
from ceil_jax.retrieval.registry import Given
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example

EQUAL = 1e-6
"""Cosines that differ by less count as equal: float32 rounds by that much, and a text's vector
depends on its batch."""

_BATCH = 64
"""Queries in one call of the compiled score."""

SCORES_AT_ONCE = 2**26
"""Scores of queries with the whole bank that are held at once where all of them are needed: 256
MiB."""


class Compared(NamedTuple):
    """Which texts of the examples are compared, and how."""

    texts: Callable[[Sequence[Example]], list[Sequence[str]]]
    """Texts of each example, the same number for all."""
    score: Callable[[Any, Any], Any] | None = None
    """Scores of every query with every item, float32 [Q, m, D] and [N, m, D] → [Q, N], in jax; a
    score goes with `shared` alone. None for the cosine of their one text each."""
    whole: bool = False
    """Whether an encoder that looks at whole examples (`encode_examples`, `encode_queries`) may do
    so."""
    shared: bool = False
    """Whether many examples may have the same text, as with skills. Equally near examples are then
    drawn at random for each query; otherwise all queries would get those that come first in the
    bank."""


class EmbeddedBank:
    """The vectors of a bank, and of queries to it: unit rows, or the vectors that the comparison's
    score takes."""

    def __init__(self, bank: Sequence[Example], given: Given, compared: Compared) -> None:
        self.bank, self._compared, self._given = bank, compared, given
        self.items = self._embedded(bank, given.encoder, "encode_examples")
        self._own_rows = OwnRows(bank, given.known_by)

    def _embedded(self, examples: Sequence[Example], encoder: Any, whole: str) -> np.ndarray:
        if self._compared.whole and hasattr(encoder, whole):
            return unit_rows(getattr(encoder, whole)(examples))
        texts = self._compared.texts(examples)
        plain = [text for several in texts for text in several]
        vectors = encoder.encode(plain)
        check_finite(vectors, plain, str(getattr(encoder, "name", type(encoder).__name__)))
        if self._compared.score is None:
            return unit_rows(vectors)
        return vectors.reshape(len(examples), len(texts[0]), vectors.shape[1])

    def nearest(
        self, queries: Sequence[Example], n: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The n nearest examples of each query, best first, never the query itself: their cosines,
        float32 [Q, n], their positions in the bank, int32 [Q, n] (−1 = none left), and the queries'
        vectors, [Q, D] or [Q, m, D].
        """
        n = min(n, len(self.bank))
        vectors = self._embedded(queries, self._given.query_encoder, "encode_queries")
        own = self._own_rows(queries)
        if self._compared.shared:
            return *self._drawn(queries, vectors, own, n), vectors
        most = max(map(len, own), default=0)
        cosines, positions = top_k(vectors, self.items, n + most)
        if most > 0:
            lost = np.array([np.isin(row, rows) for row, rows in zip(positions, own, strict=True)])
            others = np.argsort(lost, axis=1, kind="stable")[:, :n]
            cosines = np.take_along_axis(np.where(lost, np.float32(-np.inf), cosines), others, 1)
            positions = np.take_along_axis(np.where(lost, -1, positions), others, 1)
        return cosines, positions, vectors

    def _drawn(
        self, queries: Sequence[Example], vectors: np.ndarray, own: Sequence[Sequence[int]], n: int
    ) -> tuple[np.ndarray, np.ndarray]:
        cosines, positions = (
            np.empty((len(queries), n), np.float32),
            np.empty((len(queries), n), np.int32),
        )
        score = self._compared.score or dot_products
        # moved to the devices once, not for every part
        items = jax.device_put(self.items, whole(device_mesh()))
        # a power of two, as the batch size is, or the last batch of every part would be padded
        at_once = 1 << (max(1, SCORES_AT_ONCE // len(self.bank)).bit_length() - 1)
        for start in range(0, len(queries), at_once):
            part = slice(start, start + at_once)
            block = np.array(map_batches(score, (vectors[part],), (items,), batch_size=_BATCH))
            for row, query in enumerate(queries[part], start):
                scores = block[row - start]
                scores[own[row]] = -np.inf
                positions[row] = nearest_drawn(scores, n, text_rng(query.id, self._given.seed))
                cosines[row] = scores[positions[row]]
        return cosines, np.where(np.isfinite(cosines), positions, -1)


def nearest_drawn(scores: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """Places of the n largest of [N] scores, best first; a random choice of equal scores, in random
    order."""
    least = np.partition(scores, len(scores) - n)[len(scores) - n]
    near = np.flatnonzero(scores >= least - EQUAL)
    near = near[np.argsort(-scores[near], kind="stable")]
    ordered = scores[near]  # -inf for what must not be chosen
    groups = np.cumsum(np.append(False, ordered[1:] < ordered[:-1] - EQUAL))
    return near[np.lexsort((generator.permutation(len(near)), groups))][:n]


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Each row divided by its length, which may be any; rows of zeros are unchanged."""
    vectors = np.asarray(vectors)
    # squares of numbers between 0.5 and 1 leave no number format, and a power of two costs no bit
    _, exponents = np.frexp(np.abs(vectors).max(axis=1, keepdims=True, initial=0))
    scaled = np.ldexp(vectors, -np.clip(exponents, -126, 126))
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12)
