"""The retrievers that need no skills and no gold outputs: none, random, BM25, dense top-k, MMR and
DPP-MAP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from ceil_jax.dpp.greedy import MapResult
from ceil_jax.dpp.kernel import similarity
from ceil_jax.dpp.mmr import MMR_TRADE_OFF
from ceil_jax.errors import UserError
from ceil_jax.retrieval.bm25 import LexicalIndex
from ceil_jax.retrieval.embedded_bank import Compared, EmbeddedBank
from ceil_jax.retrieval.own_rows import OwnRows
from ceil_jax.retrieval.registry import Given, Needs, Registered, Retrieved
from ceil_jax.retrieval.shortlists import greedy_map_shortlists, mmr_shortlists
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example

INPUTS = Compared(lambda examples: [(example.input,) for example in examples], whole=True)
"""The similarity that most retrievers compare by: the cosine of two inputs."""


def check_size(bank: Sequence[Example], k: int) -> None:
    """Raise a UserError unless k examples can be taken from the bank."""
    if not 1 <= k <= len(bank):
        raise UserError(
            f"{k} examples asked for from a bank of {len(bank)}; ask for 1 to {len(bank)}"
        )


def retrieved(
    bank: Sequence[Example],
    positions: Iterable[int],
    relevance: Iterable[float],
    gains: Iterable[float],
) -> list[Retrieved]:
    """The examples at these positions, with the relevance and the gain of each; −1 is an empty
    place."""
    chosen = zip(positions, relevance, gains, strict=True)
    return [Retrieved(bank[p].id, int(p), float(r), float(gain)) for p, r, gain in chosen if p >= 0]


class ZeroRetriever:
    """No examples, whatever k is."""

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        return [[] for _ in queries]


class RankingRetriever:
    """The best of a ranking of the bank, which is made for each query by itself."""

    def __init__(self, bank: Sequence[Example], given: Given) -> None:
        self.bank, self.given = bank, given
        self._own_rows = OwnRows(bank, given.known_by)

    def rank(self, query: Example, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of n different examples, best first, and the score of each example
        of the bank."""
        raise NotImplementedError

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        check_size(self.bank, k)
        chosen = []
        for query, own in zip(queries, self._own_rows(queries), strict=True):
            # at least one more than k, so that a random draw is the same whether the query is in
            # the bank or not
            best, scores = self.rank(query, min(k + max(1, len(own)), len(self.bank)))
            others = [i for i in best if i not in own][:k]
            chosen.append(retrieved(self.bank, others, scores[others], scores[others]))
        return chosen


class RandomRetriever(RankingRetriever):
    """Uniform draws without replacement."""

    def rank(self, query: Example, n: int) -> tuple[np.ndarray, np.ndarray]:
        size = len(self.bank)
        return text_rng(query.id, self.given.seed).choice(size, size=n, replace=False), np.zeros(
            size
        )


class BM25Retriever(RankingRetriever):
    """The highest BM25 scores; equal scores in bank order."""

    def __init__(self, bank: Sequence[Example], given: Given) -> None:
        super().__init__(bank, given)
        self.index = LexicalIndex([example.input for example in bank])

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        self.index.warn_of_strangers([query.input for query in queries])
        return super().retrieve(queries, k)

    def rank(self, query: Example, n: int) -> tuple[np.ndarray, np.ndarray]:
        scores = self.index.scores(query.input)
        return np.argsort(-scores, kind="stable")[:n], scores


class DenseRetriever:
    """The nearest by cosine: dense top-k with any encoder, EPR with its trained one."""

    def __init__(self, bank: Sequence[Example], given: Given, compared: Compared = INPUTS) -> None:
        self.vectors = EmbeddedBank(bank, given, compared)

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        bank = self.vectors.bank
        check_size(bank, k)
        cosines, positions, _ = self.vectors.nearest(queries, k)
        relevance = similarity(cosines)
        return [
            retrieved(bank, row, own, own) for row, own in zip(positions, relevance, strict=True)
        ]


class GreedyRetriever:
    """Greedy choice among the n nearest examples: DPP-MAP (CEIL, section 3.4, with its trained
    encoders) or MMR.

    `choose` maps (vectors of queries, of the bank, shortlists, k, λ) to each query's choice, as in
    `shortlists`.
    """

    def __init__(
        self, choose: Callable[..., MapResult], bank: Sequence[Example], given: Given
    ) -> None:
        self.vectors, self.choose, self.given = EmbeddedBank(bank, given, INPUTS), choose, given

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        bank, items = self.vectors.bank, self.vectors.items
        check_size(bank, k)
        _, shortlists, vectors = self.vectors.nearest(queries, max(self.given.shortlist, k))
        chosen, gains = self.choose(vectors, items, shortlists, k, self.given.trade_off)
        return [
            retrieved(bank, row, (similarity(vector @ items[p]) for p in row), own)
            for vector, row, own in zip(vectors, chosen, gains, strict=True)
        ]


RETRIEVERS = {
    "zero": Registered(lambda bank, given: ZeroRetriever(), Needs(text=False), "zero examples"),
    "random": Registered(RandomRetriever, Needs(text=False, seeded=True), "random"),
    "bm25": Registered(BM25Retriever, Needs(), "BM25"),
    "dense": Registered(DenseRetriever, Needs(encoder=True, ends_in_nearest=True), "dense top-k"),
    "mmr": Registered(
        partial(GreedyRetriever, mmr_shortlists),
        Needs(encoder=True, trade_off=MMR_TRADE_OFF, shortlist=True),
        "MMR",
    ),
    "dpp": Registered(
        partial(GreedyRetriever, greedy_map_shortlists),
        Needs(encoder=True, trade_off="tunable", shortlist=True, ends_in_map=True),
        "DPP-MAP",
    ),
}
"""The retrievers of this module, for the registry."""
