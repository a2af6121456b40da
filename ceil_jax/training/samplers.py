"""How CEIL's candidate sets are drawn.

Every sampler puts the top-k first. A query's draws depend on the seed and on its id alone, except those of the k-DPP,
which depend on its place among the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jaxtyping import Float, Int32

from ceil_jax.dpp.distribution import sample_k_dpp
from ceil_jax.dpp.kernel import conditional_kernel, similarity_from_features
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.config import CEILConfig


def ceil_candidates(
    queries: Sequence[Example],
    bank: Sequence[Example],
    shortlist: Int32[np.ndarray, "q n"],
    relevance: Float[np.ndarray, "q n"],
    vectors: Callable[[], tuple[Float[np.ndarray, "q d"], Float[np.ndarray, "bank d"]]],
    config: CEILConfig,
    seed: int,
) -> CandidateSets:
    """Draw CEIL's candidate sets with the sampler that `config` names.

    Args:
        shortlist: bank positions, nearest first, −1 at empty places.
        relevance: relevance of the shortlisted examples, −inf at empty places.
        vectors: returns unit vectors of the queries and of the bank; only called by samplers that need them.
    """
    count, size = config.subsets, config.size
    if config.sampler == "k_dpp":
        assert config.trade_off != "tuned"
        return k_dpp_sets(shortlist, vectors()[1], relevance, count, size, config.trade_off, seed)
    if config.sampler == "bank":
        return bank_sets(queries, bank, shortlist, *vectors(), count, size, seed)
    draw = tree_sets if config.sampler == "tree" else uniform_sets
    return draw(queries, shortlist, count, size, seed)


def uniform_sets(
    queries: Sequence[Example], shortlist: Int32[np.ndarray, "q n"], count: int, size: int, seed: int
) -> CandidateSets:
    """Draw `size` examples uniformly from the shortlist for each of `count` sets (CEIL, section 3.3)."""
    subsets = np.full((len(queries), count, size), -1, np.int32)
    for row, query in enumerate(queries):
        n = int(np.sum(shortlist[row] >= 0))
        k = min(size, n)
        generator = text_rng(query.id, seed)
        subsets[row, 0, :k] = np.arange(k)
        for m in range(1, count):
            subsets[row, m, :k] = np.sort(generator.choice(n, size=k, replace=False))
    return CandidateSets(shortlist, subsets)


def tree_sets(
    queries: Sequence[Example], shortlist: Int32[np.ndarray, "q n"], count: int, size: int, seed: int
) -> CandidateSets:
    """Draw sets that share their less similar half with some others.

    Prompts begin with the least similar examples, so an LM that reads a common prefix once reads the √count shared
    halves (stems) and each set's own nearer half: 57 % of the examples at count = 50.

    Every set by itself is a uniform draw, as in `uniform_sets`: a stem is the farther half of one, and given its
    farther half, the nearer half of a uniform draw is uniform among the places nearer still. Only sets of one stem
    depend on each other.
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

    The shortlist that is returned holds the examples drawn, nearest first, so that prompts are in the same order as
    those of the other samplers.

    Args:
        shortlist: bank positions, nearest first, at least `size` a query.
        query_vectors: unit rows.
        bank_vectors: unit rows.
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

    Where λ is so small that the kernel's float32 rank is below k, a sample is filled up with the nearest examples
    that are not in it: those whose quality is far above all others'.

    Args:
        shortlist: bank positions, nearest first, −1 at empty places; at least `size` a query.
        bank_vectors: unit rows.
        relevance: relevance of the shortlisted examples, −inf at empty places.
        trade_off: λ of the kernel.
    """

    @jax.jit
    def draw(key: jax.Array, features: jax.Array, relevance: jax.Array) -> jax.Array:
        kernel = conditional_kernel(relevance, similarity_from_features(features), trade_off)
        return jax.vmap(lambda one: sample_k_dpp(one, kernel, size))(jax.random.split(key, count - 1))

    # exp(r / λ) overflows float32 unless the highest r is 0
    relevance = relevance - relevance.max(axis=1, keepdims=True)
    top = np.arange(size, dtype=np.int32)[None]
    subsets = []
    for row, key in enumerate(jax.random.split(jax.random.key(seed), len(shortlist))):
        drawn = np.asarray(draw(key, bank_vectors[shortlist[row]], relevance[row]))
        found = int((shortlist[row] >= 0).sum())
        subsets.append(np.concatenate([top, [_filled_up(one, found) for one in drawn]]))
    return CandidateSets(shortlist, np.stack(subsets).astype(np.int32))


def _filled_up(drawn: np.ndarray, n: int) -> np.ndarray:
    """int [k], ascending: the places drawn of n, with the nearest other places instead of −1."""
    found = drawn[drawn >= 0]
    return np.sort(np.append(found, np.setdiff1d(np.arange(n), found)[: len(drawn) - len(found)]))
