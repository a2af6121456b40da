"""Samplers of candidate sets: of single examples, for EPR and TST, and of sets, for CEIL.

Every sampler of sets puts the top-k first, and a query's sets are all distinct, as in the released
code; some repeat only if its shortlist has too few examples. A query's draws depend only on the
seed and its id, except with the k-DPP, where they depend on its position among the queries.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import jax
import numpy as np
from jaxtyping import Float, Int32

from ceil_jax.dpp.distribution import sample_k_dpp
from ceil_jax.dpp.kernel import conditional_kernel, similarity_from_features
from ceil_jax.retrieval.bm25 import LexicalIndex
from ceil_jax.retrieval.own_rows import OwnRows
from ceil_jax.retrieval.ranking import best_first, earlier_equals
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import CandidateSets

_DRAWS_A_SET = 4
"""Number of draws from the k-DPP for each set that is wanted; the first distinct ones are used."""

_BANK_DRAWS = 4
"""The part of the random key, next to the seed, that separates draws from the whole bank from draws
from a shortlist."""

_DOUBLINGS = 12
"""Number of values of λ that are tried with the k-DPP, from the given one up to 2,048 times
that."""


class SamplerInputs(NamedTuple):
    """The arguments of all samplers; each reads those that it needs."""

    queries: Sequence[Example]
    bank: Sequence[Example]
    seed: int
    shortlist: Int32[np.ndarray, "q n"]
    """Bank positions of the nearest examples, best first; −1 at empty positions. [Q, 0] for a
    sampler without a shortlist."""
    relevance: Float[np.ndarray, "q n"]
    """The relevance of each shortlisted example; −inf at empty positions."""
    query_vectors: Float[np.ndarray, "q d"] | None = None
    bank_vectors: Float[np.ndarray, "bank d"] | None = None
    """Unit rows, for a sampler that needs vectors."""
    trade_off: float | None = None
    """λ of the k-DPP, for a sampler that needs it."""


class Sampler(Protocol):
    """A way of drawing candidate sets.

    A frozen dataclass, which becomes part of the key of the sets.
    """

    needs_vectors: ClassVar[bool]
    needs_trade_off: ClassVar[bool]

    @property
    def sets(self) -> int:
        """M, the number of sets of a query."""

    @property
    def size(self) -> int:
        """k, the number of examples in a set."""

    @property
    def shortlist(self) -> int:
        """n, the number of nearest examples that it needs; 0 for none."""

    def draw(self, inputs: SamplerInputs) -> CandidateSets:
        """Draw the sets of all queries."""


@dataclass(frozen=True)
class LexicalSingles:
    """A sampler of single examples by BM25 (`epr_candidates`)."""

    needs_vectors: ClassVar[bool] = False
    needs_trade_off: ClassVar[bool] = False
    sets: int
    size: ClassVar[int] = 1
    shortlist: ClassVar[int] = 0

    def draw(self, inputs: SamplerInputs) -> CandidateSets:
        """Return the examples that BM25 finds for each query, each as a set of its own."""
        return epr_candidates(inputs.queries, inputs.bank, self.sets)


@dataclass(frozen=True)
class NearestSingles:
    """A sampler of the nearest examples, each as a set of its own."""

    needs_vectors: ClassVar[bool] = False
    needs_trade_off: ClassVar[bool] = False
    sets: int
    size: ClassVar[int] = 1

    @property
    def shortlist(self) -> int:
        """The number of sets."""
        return self.sets

    def draw(self, inputs: SamplerInputs) -> CandidateSets:
        """Return each example of the shortlist as a set of its own."""
        shape = (*inputs.shortlist.shape, 1)
        positions = np.arange(inputs.shortlist.shape[1], dtype=np.int32)[None, :, None]
        return CandidateSets(inputs.shortlist, np.broadcast_to(positions, shape))


@dataclass(frozen=True)
class UniformSets:
    """A sampler of sets, uniformly from the shortlist (`uniform_sets`)."""

    needs_vectors: ClassVar[bool] = False
    needs_trade_off: ClassVar[bool] = False
    sets: int
    size: int
    shortlist: int

    def draw(self, inputs: SamplerInputs) -> CandidateSets:
        """Draw the sets of all queries."""
        return uniform_sets(inputs.queries, inputs.shortlist, self.sets, self.size, inputs.seed)


@dataclass(frozen=True)
class BankSets:
    """A sampler of sets, uniformly from the whole bank (`bank_sets`)."""

    needs_vectors: ClassVar[bool] = True
    needs_trade_off: ClassVar[bool] = False
    sets: int
    size: int
    shortlist: int

    def draw(self, inputs: SamplerInputs) -> CandidateSets:
        """Draw the sets of all queries."""
        assert inputs.query_vectors is not None
        assert inputs.bank_vectors is not None
        return bank_sets(
            inputs.queries,
            inputs.bank,
            inputs.shortlist,
            inputs.query_vectors,
            inputs.bank_vectors,
            self.sets,
            self.size,
            inputs.seed,
        )


@dataclass(frozen=True)
class KDPPSets:
    """A sampler of sets from the k-DPP over the shortlist (`k_dpp_sets`)."""

    needs_vectors: ClassVar[bool] = True
    needs_trade_off: ClassVar[bool] = True
    sets: int
    size: int
    shortlist: int

    def draw(self, inputs: SamplerInputs) -> CandidateSets:
        """Draw the sets of all queries."""
        assert inputs.bank_vectors is not None
        assert inputs.trade_off is not None
        return k_dpp_sets(
            inputs.shortlist,
            inputs.bank_vectors,
            inputs.relevance,
            self.sets,
            self.size,
            inputs.trade_off,
            inputs.seed,
        )


def epr_candidates(
    queries: Sequence[Example], bank: Sequence[Example], count: int
) -> CandidateSets:
    """Return EPR's candidates: `count` single examples for each query, found by BM25.

    The query itself (by id) is never one of them.

    The released code compares the query's *output* with the bank's outputs. So do we if outputs are
    free text. If they are choices, that would give many ties (the same few lists for all queries),
    so inputs are compared; and if all examples have the same choices, each choice gets the same
    number of candidates. (Rubin et al. 2022, section 3; the change is ours.)
    """
    options = {example.choices for example in bank}
    by_input = bool(bank[0].choices)
    index = LexicalIndex([example.input if by_input else example.output for example in bank])
    # the number of each example's output, where each output gets the same number of candidates
    groups = np.zeros(len(bank), np.int64)
    if by_input and len(options) == 1:
        groups = np.array([bank[0].choices.index(example.output) for example in bank])
    count = min(count, len(bank) - 1)
    shortlist = np.full((len(queries), count), -1, np.int32)
    texts = [query.input if by_input else query.output for query in queries]
    index.warn_without_shared_words(texts)
    for row, own_positions in enumerate(OwnRows(bank, "id")(queries)):
        scores = index.scores(texts[row])
        scores[own_positions] = -np.inf
        order = best_first(scores, len(bank))
        order = order[np.isfinite(scores[order])]
        # the best of every output comes first, then the second best of every output, …
        rank_in_group = earlier_equals(groups[order])
        shortlist[row] = order[np.argsort(rank_in_group, kind="stable")][:count]
    # each example of the shortlist is a set of its own
    singles = np.arange(count, dtype=np.int32)[None, :, None]
    subsets = np.broadcast_to(singles, (len(queries), count, 1))
    return CandidateSets(shortlist, subsets)


def uniform_sets(
    queries: Sequence[Example],
    shortlist: Int32[np.ndarray, "q n"],
    count: int,
    size: int,
    seed: int,
) -> CandidateSets:
    """Draw sets uniformly from each query's shortlist (CEIL, section 3.3).

    Args:
        queries: Q training queries; a query's draws depend on its id.
        shortlist: positions in the bank, nearest first; −1 at empty positions at the end.
        count: M, sets of a query; the first is the top-k.
        size: k, examples in a set; fewer if the shortlist has fewer.
        seed: of the draws.
    """
    subsets = np.full((len(queries), count, size), -1, np.int32)
    for row, query in enumerate(queries):
        n = int(np.sum(shortlist[row] >= 0))
        k = min(size, n)
        draws = _draws(text_rng(query.id, seed), n, k)
        subsets[row, :, :k] = _different(np.arange(k), draws, count, math.comb(n, k))
    return CandidateSets(shortlist, subsets)


def bank_sets(
    queries: Sequence[Example],
    bank: Sequence[Example],
    shortlist: Int32[np.ndarray, "q n"],
    query_vectors: Float[np.ndarray, "q d"],
    bank_vectors: Float[np.ndarray, "bank d"],
    count: int,
    size: int,
    seed: int,
) -> CandidateSets:
    """Draw sets uniformly from the whole bank, never the query itself (CEIL, Table 4: RAND).

    The returned shortlist holds the drawn examples, nearest first by the vectors, so that prompts
    are ordered as with the other samplers.

    Args:
        queries: Q training queries; a query's draws depend on its id.
        bank: the examples to draw from.
        shortlist: positions in the bank, nearest first, at least `size` of them; it gives the
            top-k.
        query_vectors: unit rows.
        bank_vectors: unit rows.
        count: M, sets of a query; the first is the top-k.
        size: k, examples in a set.
        seed: of the draws.
    """
    own_rows = OwnRows(bank, "id")(queries)
    drawn = np.full((len(queries), min(count * size, len(bank))), -1, np.int32)
    subsets = np.full((len(queries), count, size), -1, np.int32)
    for row, query in enumerate(queries):
        others = np.delete(np.arange(len(bank)), own_rows[row])
        generator = text_rng(query.id, seed, _BANK_DRAWS)
        draws = (
            others[drawn_positions] for drawn_positions in _draws(generator, len(others), size)
        )
        possible = math.comb(len(others), size)
        sets = _different(np.sort(shortlist[row, :size]), draws, count, possible)
        # the shortlist: all drawn examples, nearest first
        items = np.unique(sets)
        order = np.argsort(-(bank_vectors[items] @ query_vectors[row]), kind="stable")
        drawn[row, : len(items)] = items[order]
        # each set by its positions in that shortlist
        position_of_item = np.argsort(order)
        subsets[row] = np.sort(position_of_item[np.searchsorted(items, sets)], axis=1)
    return CandidateSets(drawn, subsets)


def k_dpp_sets(
    shortlist: Int32[np.ndarray, "q n"],
    bank_vectors: Float[np.ndarray, "bank d"],
    relevance: Float[np.ndarray, "q n"],
    count: int,
    size: int,
    trade_off: float,
    seed: int,
) -> CandidateSets:
    """Draw sets from the k-DPP with the conditional kernel (CEIL, Table 4).

    With a small λ, the kernel may have a float32 rank below k, or so little choice that draws
    repeat. Each query's sets are therefore drawn with the smallest of λ, 2 λ, 4 λ … that gives
    `count` distinct sets among four times as many draws. If none does, uniform draws are added.

    Args:
        shortlist: positions in the bank, nearest first, at least `size` of them; −1 at empty
            positions at the end.
        bank_vectors: the vectors of the bank, of any length.
        relevance: r of each shortlisted example, on the scale of S; −inf at empty positions.
        count: M, sets of a query; the first is the top-k.
        size: k, examples in a set.
        trade_off: λ, above 0.
        seed: seeds the draws, which also depend on a query's position among the queries.
    """

    @jax.jit
    def draw(
        key: jax.Array, features: jax.Array, relevance: jax.Array, trade_off: jax.Array
    ) -> jax.Array:
        kernel = conditional_kernel(relevance, similarity_from_features(features), trade_off)
        keys = jax.random.split(key, _DRAWS_A_SET * (count - 1))
        return jax.vmap(lambda key: sample_k_dpp(key, kernel, size))(keys)

    # exp(r / λ) overflows float32 unless the highest r is 0
    relevance = relevance - relevance.max(axis=1, keepdims=True)
    subsets = []
    for row, key in enumerate(jax.random.split(jax.random.key(seed), len(shortlist))):
        for doubling in range(_DOUBLINGS):
            drawn = draw(
                key, bank_vectors[shortlist[row]], relevance[row], trade_off * 2.0**doubling
            )
            # a dictionary, to keep the order of draws; a set with −1 has fewer than k examples
            distinct = {
                tuple(sorted(items)): None
                for items in np.asarray(drawn).tolist()
                if min(items) >= 0
            }
            # the top-k is the first set in any case
            distinct.pop(tuple(range(size)), None)
            if len(distinct) >= count - 1:
                break
        n = int((shortlist[row] >= 0).sum())
        uniform = _draws(np.random.default_rng([seed, row]), n, size)
        draws = itertools.chain(map(np.array, distinct), uniform)
        subsets.append(_different(np.arange(size), draws, count, math.comb(n, size)))
    return CandidateSets(shortlist, np.array(subsets, np.int32))


def _draws(generator: np.random.Generator, n: int, k: int) -> Iterator[np.ndarray]:
    """Endless uniform draws of k of n positions, int [k] each, ascending."""
    while True:
        yield np.sort(generator.choice(n, size=k, replace=False))


def _different(
    nearest: np.ndarray, draws: Iterable[np.ndarray], count: int, possible: int
) -> np.ndarray:
    """Return int [count, k]: `nearest`, then distinct draws.

    They repeat only if all `possible` sets have been drawn. Every set is ascending. `draws` must be
    endless.
    """
    sets = [nearest]
    before = {tuple(nearest.tolist())}
    for drawn in draws:
        if len(sets) == count:
            break
        items = tuple(drawn.tolist())
        if items not in before or len(before) >= possible:
            before.add(items)
            sets.append(drawn)
    return np.stack(sets)
