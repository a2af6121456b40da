"""Greedy MAP under a token budget, against a slow version and against all sets."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from ceil_jax.dpp.budgeted import budgeted_map, budgeted_map_from_features
from ceil_jax.dpp.greedy import greedy_map_from_features
from ceil_jax.dpp.kernel import conditional_kernel, similarity_from_features

N, D, K = 10, 16, 6
LAMBDA = 0.1
BOUND = (1 - 1 / math.e) / 2


def problem(seed, n=N, d=D, offset=0.0):
    """Features, relevance and costs; the last item costs more than any budget asked about."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, d)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    costs = rng.integers(1, 12, n).astype(np.int32)
    costs[-1] = 1000
    return features, rng.uniform(-0.2, 0.3, size=n).astype(np.float32) + np.float32(offset), costs


def sound(result, costs, budget, k):
    """Check what holds for every result, and return the chosen items."""
    items, gains = np.asarray(result.items), np.asarray(result.gains)
    assert items.shape == gains.shape == (k,)
    found = int((items >= 0).sum())
    chosen = items[:found].tolist()
    assert (items[found:] == -1).all() and (gains[found:] == -np.inf).all()
    assert (gains[:found] > 0).all()
    assert len(set(chosen)) == found and all(i < len(costs) for i in chosen)
    assert sum(costs[i] for i in chosen) <= max(budget, 0)
    return chosen


def solve(features, r, costs, budget, k=K, **options):
    arrays = (jnp.asarray(features), jnp.asarray(r), jnp.asarray(costs))
    return budgeted_map_from_features(*arrays, budget, k, LAMBDA, **options)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 60))
def test_agrees_with_the_slow_version(seed, budget):
    features, r, costs = problem(seed)
    S = reference.similarity(features)
    expected, gains = reference.budgeted_map(S, r.astype(np.float64) / LAMBDA, costs, budget, K)
    ours = solve(features, r, costs, budget)
    chosen = sound(ours, costs, budget, K)
    assert chosen == expected
    np.testing.assert_allclose(ours.gains[: len(gains)], gains, rtol=1e-4, atol=1e-4)
    kernel = conditional_kernel(jnp.asarray(r), similarity_from_features(jnp.asarray(features)), LAMBDA)
    assert budgeted_map(kernel, jnp.asarray(costs), budget, K).items.tolist() == ours.items.tolist()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 60), st.sampled_from([0.0, 1.0]))
def test_against_the_best_of_all_sets(seed, budget, offset):
    """Never below the best single item; with gains positive throughout, within the guarantee of the best set."""
    features, r, costs = problem(seed, offset=offset)
    S, log_quality = reference.similarity(features), r.astype(np.float64) / LAMBDA
    chosen = sound(solve(features, r, costs, budget, N), costs, budget, N)
    value = reference.log_det(S, chosen) + sum(log_quality[chosen])
    singles = [log_quality[i] for i in range(N) if costs[i] <= budget]
    assert value >= max([0, *singles]) - 1e-4
    if offset:
        # exp(0.8 / 0.1) or more times the least eigenvalue of S: log det is monotone
        assert np.linalg.eigvalsh(reference.conditional_kernel(r, S, LAMBDA)).min() > 1
        best = reference.best_in_budget(S, log_quality, costs, budget, N)
        assert value >= BOUND * best - 1e-4


def independent(worth, costs, budget, k=6):
    """Items that do not touch each other: log det is the sum of their worths, the problem a knapsack."""
    kernel = jnp.diag(jnp.exp(jnp.asarray(worth, jnp.float32)))
    result = budgeted_map(kernel, jnp.asarray(costs), budget, k)
    return sound(result, costs, budget, k)


def test_each_pass_alone_would_be_bad():
    # by gain alone: item 0 for 5.1 shuts out the five others, which are worth 5 each
    assert independent([5.1, 5, 5, 5, 5, 5], [10, 2, 2, 2, 2, 2], 10) == [1, 2, 3, 4, 5]
    # by gain per cost alone: item 1 for 0.2 a token shuts out item 0, which is worth 1 at 0.1 a token
    assert independent([1, 0.2, 0, 0, 0, 0], [10, 1, 1, 1, 1, 1], 10) == [0]


def test_what_does_not_fit_is_passed_over():
    # 6 left after item 0: item 1 costs 7, item 2 is taken though it is worth less
    assert independent([9, 8, 3, 0, 0, 0], [4, 7, 6, 1, 1, 1], 10) == [0, 2]


def test_ties_go_to_the_lowest_index():
    assert independent([2, 2, 2, 2, 2, 2], [3, 3, 3, 3, 3, 3], 10) == [0, 1, 2]
    # the same value either way: the set by gain
    assert independent([4, 2, 2, 0, 0, 0], [4, 2, 2, 1, 1, 1], 4) == [0]


@pytest.mark.parametrize("budget", [0, -3, 0.5])
def test_nothing_fits(budget):
    assert independent([1] * 6, [1] * 6, budget) == []


def test_no_gain_is_positive():
    assert independent([0, -1, -2, 0, 0, 0], [1] * 6, 100) == []


def test_no_more_than_k_and_no_more_than_there_are():
    assert independent([6, 5, 4, 3, 2, 1], [1] * 6, 100, k=3) == [0, 1, 2]
    assert independent([6, 5, 4, 3, 2, 1], [1] * 6, 100, k=9) == [0, 1, 2, 3, 4, 5]


def test_invalid_items_and_copies_are_never_chosen():
    features, r, costs = problem(3, offset=0.5)
    features[4], costs[4] = features[2], costs[2]
    r[4] = r[2]
    features[0] = np.nan
    valid = np.ones(N, bool)
    valid[[0, 5]] = False
    chosen = sound(solve(features, r, costs, 900, N, valid=jnp.asarray(valid)), costs, 900, N)
    assert sorted(chosen) == [1, 2, 3, 6, 7, 8]


def test_vmap_is_the_loop():
    features, r, costs = map(np.stack, zip(*[problem(seed, offset=0.5) for seed in range(4)], strict=True))
    budgets = np.array([0, 5, 17, 40], np.int32)

    def one(f, r, c, b):
        return budgeted_map_from_features(f, r, c, b, K, LAMBDA)

    together = jax.jit(jax.vmap(one))(features, r, costs, budgets)
    for i in range(4):
        alone = one(*map(jnp.asarray, (features[i], r[i], costs[i], budgets[i])))
        np.testing.assert_array_equal(together.items[i], alone.items)
        np.testing.assert_allclose(together.gains[i], alone.gains, rtol=1e-5, atol=1e-5)


def test_a_budget_for_all_gives_the_map_set():
    features, r, costs = problem(5, offset=0.5)
    ours = solve(features, r, costs, 10_000, N)
    plain = greedy_map_from_features(jnp.asarray(features), jnp.asarray(r), N, LAMBDA)
    assert set(ours.items.tolist()) == set(plain.items.tolist()) == set(range(N))
    assert float(ours.gains.sum()) == pytest.approx(float(plain.gains.sum()), rel=1e-4)
