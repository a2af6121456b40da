"""Sets of examples proposed for training queries, for the LM to score: EPR's of one, CEIL's of k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ceil_jax.retrieval.bm25 import LexicalIndex
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example
from ceil_jax.training.config import CEILConfig


class Proposal(NamedTuple):
    """Sets of bank examples for Q queries."""

    shortlist: np.ndarray
    """int32 [Q, n]: bank positions, nearest first, −1 where there are fewer."""
    subsets: np.ndarray
    """int32 [Q, M, k]: places in the shortlist, nearest first, −1 where there are fewer."""


def propose_single(queries: Sequence[Example], bank: Sequence[Example], count: int) -> Proposal:
    """EPR's candidates: `count` examples a query, by BM25, never the query itself (by id).

    The released code matches the query's *answer* against the bank's answers. We do so where answers are
    texts. Where they are options, that is all ties (the same few lists for every query), so we match inputs;
    and where all examples share one set of options, take as many of each answer (reference: Rubin et al.
    2022, section 3; the change is ours).
    """
    options = {example.choices for example in bank}
    by_input = bool(bank[0].choices)
    index = LexicalIndex([example.input if by_input else example.output for example in bank])
    groups = np.zeros(len(bank), np.int64)
    if by_input and len(options) == 1:
        groups = np.array([bank[0].choices.index(example.output) for example in bank])
    position = {example.id: i for i, example in enumerate(bank)}
    count = min(count, len(bank) - 1)
    shortlist = np.full((len(queries), count), -1, np.int32)
    for row, query in enumerate(queries):
        scores = index.scores(query.input if by_input else query.output)
        if query.id in position:
            scores[position[query.id]] = -np.inf
        order = np.argsort(-scores, kind="stable")
        # rank of each example among those with its answer: the first of every answer, then the second…
        turn = np.zeros(len(bank), np.int64)
        for group in np.unique(groups):
            members = order[groups[order] == group]
            turn[members] = np.arange(len(members))
        order = order[np.isfinite(scores[order])]
        shortlist[row] = order[np.argsort(turn[order], kind="stable")][:count]
    subsets = np.broadcast_to(np.arange(count, dtype=np.int32)[None, :, None], (len(queries), count, 1))
    return Proposal(shortlist, subsets)


def propose_subsets(
    queries: Sequence[Example],
    bank: Sequence[Example],
    shortlist: np.ndarray,
    relevance: np.ndarray,
    vectors: Callable[[], tuple[np.ndarray, np.ndarray]],
    config: CEILConfig,
    seed: int,
) -> Proposal:
    """CEIL's subsets as `config.sampler` draws them.

    Args:
        shortlist: int32 [Q, n], bank positions, nearest first.
        relevance: float32 [Q, n].
        vectors: gives unit rows of the queries, float32 [Q, D], and of the bank, float32 [N, D]; asked by the
            samplers that need them.
    """
    count, size = config.subsets, config.size
    if config.sampler == "k_dpp":
        assert config.trade_off != "tuned"
        return propose_k_dpp(shortlist, vectors()[1], relevance, count, size, config.trade_off, seed)
    if config.sampler == "bank":
        return propose_from_bank(queries, bank, shortlist, *vectors(), count, size, seed)
    draw = propose_tree if config.sampler == "tree" else propose_random
    return draw(queries, shortlist, count, size, seed)


def propose_random(
    queries: Sequence[Example], shortlist: np.ndarray, count: int, size: int, seed: int
) -> Proposal:
    """CEIL's subsets: the top-k first, then uniform draws of k from the shortlist (section 3.3).

    Each query's draws depend on the seed and its id alone.
    """
    subsets = np.full((len(queries), count, size), -1, np.int32)
    for row, query in enumerate(queries):
        n = int(np.sum(shortlist[row] >= 0))
        k = min(size, n)
        generator = text_rng(query.id, seed)
        subsets[row, 0, :k] = np.arange(k)
        for m in range(1, count):
            subsets[row, m, :k] = np.sort(generator.choice(n, size=k, replace=False))
    return Proposal(shortlist, subsets)


def propose_tree(
    queries: Sequence[Example], shortlist: np.ndarray, count: int, size: int, seed: int
) -> Proposal:
    """CEIL's subsets: the top-k first, then draws of k that share their less similar half with some others.

    Prompts begin with the least similar examples, so an LM that reads a common beginning once reads the √count
    shared halves (stems) and each subset's own nearer half: 57 % of the examples at count = 50.

    Every subset by itself is a uniform draw, as in `propose_random`: a stem is the farther half of one, and
    given its farther half, the nearer half of a uniform draw is uniform among the places nearer still. Only
    subsets of one stem depend on each other.
    """
    subsets = np.full((len(queries), count, size), -1, np.int32)
    for row, query in enumerate(queries):
        n = int(np.sum(shortlist[row] >= 0))
        k = min(size, n)
        near = k - k // 2
        generator = text_rng(query.id, seed)
        subsets[row, 0, :k] = np.arange(k)
        stems = [
            np.sort(generator.choice(n, size=k, replace=False))[near:]
            for _ in range(round(np.sqrt(count - 1)))
        ]
        for m in range(1, count):
            stem = stems[m % len(stems)]
            nearer = generator.choice(stem[0] if len(stem) else n, size=near, replace=False)
            subsets[row, m, :k] = [*np.sort(nearer), *stem]
    return Proposal(shortlist, subsets)


def propose_from_bank(
    queries: Sequence[Example],
    bank: Sequence[Example],
    shortlist: np.ndarray,
    query_vectors: np.ndarray,
    bank_vectors: np.ndarray,
    count: int,
    size: int,
    seed: int,
) -> Proposal:
    """CEIL's subsets: the top-k first, then uniform draws of k from the whole bank, never the query itself (Table 4's
    RAND).

    Each query's draws depend on the seed and its id alone. Its shortlist is what was drawn, nearest first, so that
    prompts are in the same order as those of the other samplers.

    Args:
        shortlist: int32 [Q, n ≥ size], bank positions, nearest first.
        query_vectors: float32 [Q, D], unit rows.
        bank_vectors: float32 [N, D], unit rows.
    """
    position = {example.id: i for i, example in enumerate(bank)}
    drawn = np.full((len(queries), min(count * size, len(bank))), -1, np.int32)
    subsets = np.full((len(queries), count, size), -1, np.int32)
    for row, query in enumerate(queries):
        generator = text_rng(query.id, seed, 4)
        own = position.get(query.id, len(bank))
        others = len(bank) - (own < len(bank))
        draws = np.stack([generator.choice(others, size=size, replace=False) for _ in range(count - 1)])
        sets = np.concatenate([shortlist[row, None, :size], draws + (draws >= own)])
        items = np.unique(sets)
        order = np.argsort(-(bank_vectors[items] @ query_vectors[row]), kind="stable")
        drawn[row, : len(items)] = items[order]
        subsets[row] = np.sort(np.argsort(order)[np.searchsorted(items, sets)], axis=1)
    return Proposal(drawn, subsets)


def propose_k_dpp(
    shortlist: np.ndarray,
    bank_vectors: np.ndarray,
    relevance: np.ndarray,
    count: int,
    size: int,
    trade_off: float,
    seed: int,
) -> Proposal:
    """CEIL's subsets: the top-k first, then samples of the k-DPP with the conditional kernel (Table 4).

    Where λ is so small that the kernel's float32 rank is below k, a sample is filled up with the nearest examples
    that are not in it: those whose quality is far above all others'.

    Args:
        shortlist: int32 [Q, n], −1 where there are fewer, at least `size` of them there.
        bank_vectors: float32 [N, D], unit rows.
        relevance: float32 [Q, n], −inf where the shortlist is −1.
    """
    import jax

    from ceil_jax.dpp.distribution import sample_k_dpp
    from ceil_jax.dpp.kernel import conditional_kernel, similarity_from_features

    @jax.jit
    def draw(key, features, relevance):
        kernel = conditional_kernel(relevance, similarity_from_features(features), trade_off)
        return jax.vmap(lambda one: sample_k_dpp(one, kernel, size))(jax.random.split(key, count - 1))

    # exp(r / λ) overflows float32 unless the highest r is 0
    relevance = relevance - relevance.max(axis=1, keepdims=True)
    top = np.arange(size, dtype=np.int32)[None]
    subsets = []
    for row, key in enumerate(jax.random.split(jax.random.key(seed), len(shortlist))):
        drawn = np.asarray(draw(key, bank_vectors[shortlist[row]], relevance[row]))
        subsets.append(
            np.concatenate([top, [_filled(one, int((shortlist[row] >= 0).sum())) for one in drawn]])
        )
    return Proposal(shortlist, np.stack(subsets).astype(np.int32))


def _filled(drawn: np.ndarray, n: int) -> np.ndarray:
    """int [k], ascending: the places drawn of n, the first others in place of −1."""
    found = drawn[drawn >= 0]
    return np.sort(np.append(found, np.setdiff1d(np.arange(n), found)[: len(drawn) - len(found)]))
