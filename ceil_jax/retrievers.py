"""Query to ordered examples: one protocol, every method."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.tasks.base import Example

if TYPE_CHECKING:
    from ceil_jax.encoder import Encoder

Embed = Callable[["Encoder", Sequence[str]], np.ndarray]
"""Texts to vectors, float32 [N, D]; a pipeline passes one that remembers."""


class Retrieved(NamedTuple):
    """One chosen example."""

    id: str
    position: int
    """In the bank."""
    relevance: float
    """What orders a prompt: (1 + cos)/2 for vectors, the BM25 score for BM25, 0 for random."""
    gain: float
    """What ordered the choice: the marginal log-determinant for DPP-MAP, the MMR value, else `relevance`."""


class Retriever(Protocol):
    """A bank, ready to be asked."""

    name: str

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        """For each query at most k examples, best first; never the query itself (by id), never one twice.

        Raises:
            UserError: k is larger than the bank.
        """
        ...


def build_retriever(
    name: str,
    bank: Sequence[Example],
    *,
    encoder: Encoder | None = None,
    query_encoder: Encoder | None = None,
    trade_off: float = 0.05,
    shortlist: int = 100,
    seed: int = 0,
    embed: Embed | None = None,
) -> Retriever:
    """A retriever over the bank by its name: random, bm25, dense, mmr or dpp.

    Args:
        encoder: embeds the bank, and the queries too unless `query_encoder` is given; for dense, mmr, dpp.
        query_encoder: embeds the queries, as in CEIL with a frozen context encoder.
        trade_off: λ of the conditional kernel (dpp), or the weight of relevance against novelty (mmr).
        shortlist: n, the nearest items among which dpp and mmr choose.
        seed: of random.
        embed: how texts become vectors, `encoder.encode` by default.

    Raises:
        UserError: unknown name, or no encoder where one is needed.
    """
    if name == "random":
        return _Random(bank, seed)
    if name == "bm25":
        return _BM25(bank)
    if name not in RETRIEVERS:
        raise unknown_name("retriever", name, RETRIEVERS)
    if encoder is None:
        raise UserError(f"retriever {name!r} compares vectors: give it an encoder")
    vectors = _Vectors(bank, encoder, query_encoder or encoder, embed or (lambda e, texts: e.encode(texts)))
    if name == "dense":
        return _Dense(vectors)
    return _Greedy(name, vectors, trade_off, shortlist)


RETRIEVERS = ("random", "bm25", "dense", "mmr", "dpp")


def _check_size(bank: Sequence[Example], k: int) -> None:
    if not 1 <= k <= len(bank):
        raise UserError(f"{k} examples asked for from a bank of {len(bank)}; ask for 1 to {len(bank)}")


class _Random:
    """Uniform without replacement; a query's draw depends on the seed and its id alone."""

    name = "random"

    def __init__(self, bank: Sequence[Example], seed: int) -> None:
        self.bank, self.seed = bank, seed

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        _check_size(self.bank, k)
        chosen = []
        for query in queries:
            generator = np.random.default_rng([self.seed, zlib.crc32(query.id.encode())])
            # one more than k, in case the query itself is drawn
            draw = generator.choice(len(self.bank), size=min(k + 1, len(self.bank)), replace=False)
            others = [int(i) for i in draw if self.bank[i].id != query.id]
            chosen.append([Retrieved(self.bank[i].id, i, 0.0, 0.0) for i in others[:k]])
        return chosen


def words(text: str) -> list[str]:
    """Lower-cased words and numbers: what BM25 counts."""
    return re.findall(r"\w+", text.lower())


class LexicalIndex:
    """Okapi BM25 (k1 1.5, b 0.75) over texts, by bm25s; equal scores go to the lower position."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s

        self._index = bm25s.BM25()
        self._known: set[str] = set()
        documents = [words(text) for text in texts]
        self._known = {word for document in documents for word in document}
        if self._known:
            self._index.index(documents, show_progress=False)
        self._size = len(texts)

    def scores(self, text: str) -> np.ndarray:
        """float [N]: the text against every document."""
        query = [word for word in words(text) if word in self._known]
        return self._index.get_scores(query) if query else np.zeros(self._size)


class _BM25:
    name = "bm25"

    def __init__(self, bank: Sequence[Example]) -> None:
        self.bank = bank
        self._index = LexicalIndex([example.input for example in bank])

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        _check_size(self.bank, k)
        chosen = []
        for query in queries:
            scores = self._index.scores(query.input)
            best = np.argsort(-scores, kind="stable")[: k + 1]
            others = [int(i) for i in best if self.bank[i].id != query.id]
            chosen.append(
                [Retrieved(self.bank[i].id, i, float(scores[i]), float(scores[i])) for i in others[:k]]
            )
        return chosen


class _Vectors:
    """A bank's vectors and its queries', unit rows."""

    def __init__(
        self, bank: Sequence[Example], encoder: Encoder, query_encoder: Encoder, embed: Embed
    ) -> None:
        self.bank = bank
        self.items = unit_rows(embed(encoder, [example.input for example in bank]))
        self._query_encoder, self._embed = query_encoder, embed
        self._position = {example.id: i for i, example in enumerate(bank)}

    def nearest(self, queries: Sequence[Example], n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """cosines [Q, n], positions [Q, n] (−1 = none left) and the queries' vectors [Q, D]."""
        from ceil_jax.index import top_k

        vectors = unit_rows(self._embed(self._query_encoder, [query.input for query in queries]))
        exclude = np.array([self._position.get(query.id, -1) for query in queries], np.int32)
        cosines, positions = top_k(vectors, self.items, min(n, len(self.bank)), exclude)
        return cosines, positions, vectors


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Each row over its length; a row of zeros stays."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


class _Dense:
    """The nearest by cosine: dense top-k with any encoder; EPR with a trained one."""

    name = "dense"

    def __init__(self, vectors: _Vectors) -> None:
        self.vectors = vectors

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        bank = self.vectors.bank
        _check_size(bank, k)
        cosines, positions, _ = self.vectors.nearest(queries, k)
        relevance = (1 + cosines) / 2
        return [
            [
                Retrieved(bank[p].id, int(p), float(r), float(r))
                for p, r in zip(row, rel, strict=True)
                if p >= 0
            ]
            for row, rel in zip(positions, relevance, strict=True)
        ]


class _Greedy:
    """Greedy choice among the n nearest: DPP-MAP (CEIL with trained encoders) or MMR."""

    def __init__(self, name: str, vectors: _Vectors, trade_off: float, shortlist: int) -> None:
        self.name = name
        self.vectors = vectors
        self.trade_off = trade_off
        self.shortlist = shortlist

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        from ceil_jax.greedy import greedy_map_shortlists
        from ceil_jax.mmr import mmr_shortlists

        bank, items = self.vectors.bank, self.vectors.items
        _check_size(bank, k)
        _, shortlists, vectors = self.vectors.nearest(queries, max(self.shortlist, k))
        choose = greedy_map_shortlists if self.name == "dpp" else mmr_shortlists
        chosen, gains = choose(vectors, items, shortlists, k, self.trade_off)
        return [
            [
                Retrieved(bank[p].id, int(p), float((1 + vector @ items[p]) / 2), float(gain))
                for p, gain in zip(row, row_gains, strict=True)
                if p >= 0
            ]
            for vector, row, row_gains in zip(vectors, chosen, gains, strict=True)
        ]
