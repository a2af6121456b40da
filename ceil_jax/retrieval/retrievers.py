"""The retrievers that need no skills and no gold outputs: none, random, BM25, dense top-k, MMR and DPP-MAP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ceil_jax.dpp.greedy import MapResult
from ceil_jax.dpp.kernel import similarity
from ceil_jax.dpp.mmr import MMR_TRADE_OFF
from ceil_jax.errors import UserError
from ceil_jax.retrieval.bm25 import LexicalIndex
from ceil_jax.retrieval.embedded_bank import EmbeddedBank, View
from ceil_jax.retrieval.registry import Given, Needs, Registered, Retrieved
from ceil_jax.retrieval.shortlists import greedy_map_shortlists, mmr_shortlists
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example

INPUTS = View(lambda examples: [(example.input,) for example in examples])
"""The similarity that most retrievers compare by: the cosine of two inputs."""


def check_size(bank: Sequence[Example], k: int) -> None:
    """Raise a UserError unless k examples can be taken from the bank."""
    if not 1 <= k <= len(bank):
        raise UserError(f"{k} examples asked for from a bank of {len(bank)}; ask for 1 to {len(bank)}")


def embedded_bank(name: str, bank: Sequence[Example], given: Given, view: View) -> EmbeddedBank:
    """The vectors of a bank, and the index that finds the nearest of them.

    Raises:
        UserError: an approximate index for a view of several vectors an example.
    """
    if given.index == "approximate" and view.score is not None:
        raise UserError(f"{name} compares several vectors an example: take --index exact")
    return EmbeddedBank(bank, view, given.embed_items, given.embed_queries, given.index, given.seed)


class ZeroRetriever:
    """No examples, whatever k is."""

    def __init__(self, bank: Sequence[Example], given: Given) -> None:
        self.name = "zero"

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        return [[] for _ in queries]


class RandomRetriever:
    """Uniform draws without replacement."""

    def __init__(self, bank: Sequence[Example], given: Given) -> None:
        self.name, self.bank, self.seed = "random", bank, given.seed

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        check_size(self.bank, k)
        chosen = []
        for query in queries:
            # one more than k, in case the query itself is drawn
            size = min(k + 1, len(self.bank))
            draw = text_rng(query.id, self.seed).choice(len(self.bank), size=size, replace=False)
            others = [int(i) for i in draw if self.bank[i].id != query.id]
            chosen.append([Retrieved(self.bank[i].id, i, 0.0, 0.0) for i in others[:k]])
        return chosen


class BM25Retriever:
    """The highest BM25 scores; equal scores in bank order."""

    def __init__(self, bank: Sequence[Example], given: Given) -> None:
        self.name, self.bank = "bm25", bank
        self._index = LexicalIndex([example.input for example in bank])

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        check_size(self.bank, k)
        chosen = []
        for query in queries:
            scores = self._index.scores(query.input)
            best = np.argsort(-scores, kind="stable")[: k + 1]
            others = [int(i) for i in best if self.bank[i].id != query.id]
            chosen.append(
                [Retrieved(self.bank[i].id, i, float(scores[i]), float(scores[i])) for i in others[:k]]
            )
        return chosen


class DenseRetriever:
    """The nearest by cosine: dense top-k with any encoder, EPR with its trained one.

    Args:
        name: its name in messages.
        bank: the examples to choose from.
        given: encoders and index.
        view: what of an example is compared; its input by default.
    """

    def __init__(self, name: str, bank: Sequence[Example], given: Given, view: View = INPUTS) -> None:
        self.name, self.vectors = name, embedded_bank(name, bank, given, view)

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        bank = self.vectors.bank
        check_size(bank, k)
        cosines, positions, _ = self.vectors.nearest(queries, k)
        relevance = similarity(cosines)
        return [
            [
                Retrieved(bank[p].id, int(p), float(r), float(r))
                for p, r in zip(row, rel, strict=True)
                if p >= 0
            ]
            for row, rel in zip(positions, relevance, strict=True)
        ]


class GreedyRetriever:
    """Greedy choice among the n nearest examples: DPP-MAP (CEIL with its trained encoders) or MMR.

    Args:
        name: its name in messages.
        choose: see `Choose`.
        bank: the examples to choose from.
        given: encoders, index, n and λ.
    """

    def __init__(self, name: str, choose: Choose, bank: Sequence[Example], given: Given) -> None:
        self.name, self.choose, self.shortlist, self.trade_off = (
            name,
            choose,
            given.shortlist,
            given.trade_off,
        )
        self.vectors = embedded_bank(name, bank, given, INPUTS)

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        bank, items = self.vectors.bank, self.vectors.items
        check_size(bank, k)
        _, shortlists, vectors = self.vectors.nearest(queries, max(self.shortlist, k))
        chosen, gains = self.choose(vectors, items, shortlists, k, self.trade_off)
        return [
            [
                Retrieved(bank[p].id, int(p), float(similarity(vector @ items[p])), float(gain))
                for p, gain in zip(row, row_gains, strict=True)
                if p >= 0
            ]
            for vector, row, row_gains in zip(vectors, chosen, gains, strict=True)
        ]


Choose = Callable[[np.ndarray, np.ndarray, np.ndarray, int, float], MapResult]
"""(Vectors of queries, of the bank, shortlists, k, λ) → the choice for each query."""


def build_dpp(bank: Sequence[Example], given: Given) -> GreedyRetriever:
    """Build DPP-MAP: greedy MAP of the conditional kernel over each query's shortlist (CEIL, section 3.4)."""
    return GreedyRetriever("dpp", greedy_map_shortlists, bank, given)


def build_mmr(bank: Sequence[Example], given: Given) -> GreedyRetriever:
    """Build maximal marginal relevance."""
    return GreedyRetriever("mmr", mmr_shortlists, bank, given)


RETRIEVERS = {
    "zero": Registered(ZeroRetriever, Needs(text=False), "zero examples"),
    "random": Registered(RandomRetriever, Needs(text=False), "random"),
    "bm25": Registered(BM25Retriever, Needs(), "BM25"),
    "dense": Registered(
        partial(DenseRetriever, "dense"), Needs(encoder=True, ends_in_nearest=True), "dense top-k"
    ),
    "mmr": Registered(build_mmr, Needs(encoder=True, trade_off=MMR_TRADE_OFF, shortlist=True), "MMR"),
    "dpp": Registered(
        build_dpp,
        Needs(encoder=True, trade_off="tunable", shortlist=True, ends_in_map=True),
        "DPP-MAP",
    ),
}
"""The retrievers of this module, for the registry."""
