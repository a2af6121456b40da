"""The retrievers that need neither skills nor gold outputs.

No examples, random, BM25, nearest neighbours, fixed examples alone or followed by near ones, MMR
and DPP-MAP.

The command line lists them, and jax takes long to import, so functions import modules that need
jax.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ceil_jax.retrieval.ranking import best_first
from ceil_jax.retrieval.retriever import (
    Choice,
    Needs,
    Queries,
    RetrieverArguments,
    RetrieverKind,
    choice_of,
)
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example

MMR_WEIGHT = 0.5
"""λ of MMR: equal weight for relevance and novelty. Its scale is not that of DPP-MAP's λ."""


class NoExamples:
    """A retriever that chooses no examples."""

    def __init__(self, arguments: RetrieverArguments) -> None:
        pass

    def choose(self, queries: Queries, k: int) -> Choice:
        return choice_of([] for _ in queries.examples)


class Ranking:
    """A retriever that ranks the bank for each query separately.

    It ranks by the scores that a subclass defines.

    Examples:
        >>> class Longest(Ranking):
        ...     def scores(self, query):
        ...         return [len(example.input) for example in self.bank]
        >>> bank = [Example("1", "dull", ""), Example("2", "great fun", "")]
        >>> longest = Longest(RetrieverArguments(bank))
        >>> longest.choose(Queries([Example("3", "what fun", "")], own_positions=[[]]), 1).positions
        array([[1]], dtype=int32)
    """

    def __init__(self, arguments: RetrieverArguments) -> None:
        self.bank = arguments.bank
        self.arguments = arguments

    def scores(self, query: Example) -> np.ndarray:
        """Return the score of each example of the bank, float [N]; larger is better."""
        raise TypeError(f"{type(self).__name__} defines neither `scores` nor `rank`")

    def rank(self, query: Example, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of n distinct examples, best first, and all scores.

        There is a score for each example of the bank. By default the positions are those of the
        highest `scores`, equal ones in bank order.
        """
        scores = np.asarray(self.scores(query), np.float64)
        return best_first(scores, n), scores

    def choose(self, queries: Queries, k: int) -> Choice:
        rows = []
        for query, own_positions in zip(queries.examples, queries.own_positions, strict=True):
            # at least one more than k, so that a random draw does not depend on whether the query
            # is in the bank
            best, scores = self.rank(query, min(k + max(1, len(own_positions)), len(self.bank)))
            others = [int(position) for position in best if position not in own_positions][:k]
            # without a set score, the gain is the relevance
            rows.append([(p, float(scores[p]), float(scores[p])) for p in others])
        return choice_of(rows)


class RandomExamples(Ranking):
    """A retriever that draws examples uniformly without replacement."""

    def rank(self, query: Example, n: int) -> tuple[np.ndarray, np.ndarray]:
        size = len(self.bank)
        drawn = text_rng(query.id, self.arguments.seed).choice(size, size=n, replace=False)
        return drawn, np.zeros(size)


class BM25Ranking(Ranking):
    """A retriever that takes the highest BM25 scores; equal scores in bank order."""

    def __init__(self, arguments: RetrieverArguments) -> None:
        from ceil_jax.retrieval.bm25 import LexicalIndex

        super().__init__(arguments)
        self.index = LexicalIndex([example.input for example in self.bank])

    def choose(self, queries: Queries, k: int) -> Choice:
        self.index.warn_without_shared_words([query.input for query in queries.examples])
        return super().choose(queries, k)

    def rank(self, query: Example, n: int) -> tuple[np.ndarray, np.ndarray]:
        scores = self.index.scores(query.input)
        return best_first(scores, n), scores


class ComparesVectors:
    """A retriever that compares vectors of inputs; subclasses define how it chooses."""

    def __init__(self, arguments: RetrieverArguments) -> None:
        assert arguments.vectors is not None, "declared in Needs"
        self.items = arguments.vectors
        self.min_relevance = arguments.min_relevance

    def near(self, queries: Queries, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return each query's n nearest examples, best first: positions and relevance.

        Both are [Q, n]. If fewer are near enough, the rest is −1 and −inf.
        """
        from ceil_jax.dpp.kernel import similarity
        from ceil_jax.retrieval.nearest import nearest

        assert queries.vectors is not None, "declared in Needs"
        cosines, positions = nearest(queries.vectors, self.items, queries.own_positions, n)
        relevance = similarity(cosines)
        if self.min_relevance is None:
            return positions, relevance
        distant = relevance < self.min_relevance
        return np.where(distant, -1, positions), np.where(distant, -np.inf, relevance)


class NearestVectors(ComparesVectors):
    """A retriever of the nearest examples by cosine.

    It is dense top-k with any encoder, and EPR with its trained one.
    """

    def choose(self, queries: Queries, k: int) -> Choice:
        positions, relevance = self.near(queries, k)
        return Choice(positions, relevance, relevance)


def fixed_rows(
    fixed: Sequence[int], queries: Queries, k: int
) -> list[list[tuple[int, float, float]]]:
    """Return the fixed examples of each query, at most k, in the form that `choice_of` takes.

    Their relevance is −1, −2, …, so that a prompt shows them before all other examples, in reverse
    order. A query that is itself one of the fixed examples has one fewer.
    """
    scored = [(int(position), -float(rank)) for rank, position in enumerate(fixed[:k], 1)]
    return [
        [(position, score, score) for position, score in scored if position not in own_positions]
        for own_positions in queries.own_positions
    ]


class FixedExamples:
    """A retriever that chooses the same examples for every query."""

    def __init__(self, arguments: RetrieverArguments) -> None:
        self.fixed = arguments.fixed

    def choose(self, queries: Queries, k: int) -> Choice:
        return choice_of(fixed_rows(self.fixed, queries, k))


class FixedThenNear(ComparesVectors):
    """A retriever of the same examples for every query, followed by the nearest others."""

    def __init__(self, arguments: RetrieverArguments) -> None:
        super().__init__(arguments)
        self.fixed = arguments.fixed

    def choose(self, queries: Queries, k: int) -> Choice:
        rows = fixed_rows(self.fixed, queries, k)
        near, relevance = self.near(queries, k + len(self.fixed))
        for row, positions, scores in zip(rows, near, relevance, strict=True):
            others = [
                (int(position), float(score), float(score))
                for position, score in zip(positions, scores, strict=True)
                if position >= 0 and position not in self.fixed
            ]
            row += others[: k - len(row)]
        return choice_of(rows)


class GreedyChoice(ComparesVectors):
    """Greedy choice among the n nearest examples, by an objective that a subclass defines."""

    def __init__(self, arguments: RetrieverArguments) -> None:
        super().__init__(arguments)
        self.shortlist = arguments.shortlist
        self.trade_off = arguments.trade_off

    def among(
        self, vectors: np.ndarray, shortlists: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions and the gains of k examples of each query's shortlist."""
        raise TypeError(f"{type(self).__name__} does not define `among`")

    def choose(self, queries: Queries, k: int) -> Choice:
        from ceil_jax.dpp.kernel import similarity

        vectors = queries.vectors
        assert vectors is not None, "declared in Needs"
        shortlists, _ = self.near(queries, max(self.shortlist, k))
        positions, gains = self.among(vectors, shortlists, k)
        relevance = np.full(positions.shape, -np.inf, np.float64)
        for query, row in enumerate(positions):
            for rank, position in enumerate(row):
                if position >= 0:
                    relevance[query, rank] = similarity(vectors[query] @ self.items[position])
        return Choice(positions, relevance, gains)


class GreedyMAP(GreedyChoice):
    """A retriever by DPP-MAP; with CEIL's trained encoders, CEIL's inference (section 3.4)."""

    def among(
        self, vectors: np.ndarray, shortlists: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        from ceil_jax.retrieval.shortlists import greedy_map_shortlists

        items, gains = greedy_map_shortlists(vectors, self.items, shortlists, k, self.trade_off)
        return np.asarray(items), np.asarray(gains)


class GreedyMMR(GreedyChoice):
    """A retriever by maximal marginal relevance."""

    def among(
        self, vectors: np.ndarray, shortlists: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        from ceil_jax.retrieval.shortlists import mmr_shortlists

        items, gains = mmr_shortlists(vectors, self.items, shortlists, k, self.trade_off)
        return np.asarray(items), np.asarray(gains)


ZERO = RetrieverKind("zero", "zero examples", NoExamples, Needs(text=False))
RANDOM = RetrieverKind("random", "random", RandomExamples, Needs(text=False, seeded=True))
BM25 = RetrieverKind("bm25", "BM25", BM25Ranking)
NEAREST = RetrieverKind(
    "dense", "dense top-k", NearestVectors, Needs(vectors="inputs", ends_in_nearest=True)
)
FIXED = RetrieverKind("fixed", "fixed", FixedExamples, Needs(fixed="all"))
FIXED_NEAR = RetrieverKind(
    "fixed_near", "fixed + near", FixedThenNear, Needs(vectors="inputs", fixed="beginning")
)
MMR = RetrieverKind(
    "mmr", "MMR", GreedyMMR, Needs(vectors="inputs", trade_off=MMR_WEIGHT, shortlist=True)
)
MAP = RetrieverKind(
    "dpp",
    "DPP-MAP",
    GreedyMAP,
    Needs(vectors="inputs", trade_off="tunable", shortlist=True, ends_in_map=True),
)
