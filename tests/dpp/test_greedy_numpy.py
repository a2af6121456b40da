"""Greedy MAP a step at a time, against the compiled one and against balance by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from ceil_jax.dpp.greedy import greedy_map_from_features
from ceil_jax.dpp.greedy_numpy import greedy_steps
from ceil_jax.dpp.kernel import rescaled, similarity

N = 12
D = 6


def problem(seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N, D)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features, rng.uniform(0.3, 0.9, N).astype(np.float32)


@pytest.mark.parametrize("trade_off", [0.01, 0.1, 5.0])
def test_the_same_choice_as_the_compiled_map(trade_off):
    for seed in range(5):
        features, r = problem(seed)
        features[7] = features[2]
        expected = greedy_map_from_features(
            jnp.asarray(features), jnp.asarray(r - r.max()), N, trade_off
        )
        steps = list(greedy_steps(features, r, trade_off))
        found = int(np.sum(np.asarray(expected.items) >= 0))
        assert found < N
        assert [step.item for step in steps] == expected.items[:found].tolist()
        gains = [step.gain for step in steps]
        np.testing.assert_allclose(gains, expected.gains[:found], rtol=1e-3, atol=1e-4)
        quality = (r - r.max())[[step.item for step in steps]] / trade_off
        residuals = [step.residual for step in steps]
        np.testing.assert_allclose(residuals, np.exp(gains - quality), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("trade_off", [0.1, 1e6])
def test_zero_vectors_are_chosen_as_by_the_compiled_map(trade_off):
    for seed in range(5):
        features, r = problem(seed)
        features[[3, 8]] = 0
        r[3] = r.max()
        expected = greedy_map_from_features(
            jnp.asarray(features), jnp.asarray(r - r.max()), N, trade_off
        )
        steps = list(greedy_steps(features, r, trade_off))
        found = int(np.sum(np.asarray(expected.items) >= 0))
        assert [step.item for step in steps] == expected.items[:found].tolist()
        gains = [step.gain for step in steps]
        np.testing.assert_allclose(gains, expected.gains[:found], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("trade_off", [1e-12, 1e-30, 1e-40, 1e-310, 1e-320])
def test_the_smallest_trade_offs_give_each_item_once_by_relevance(trade_off):
    features, r = problem(0)
    steps = list(greedy_steps(features, r, trade_off))
    items = [step.item for step in steps]
    assert items == np.argsort(-r)[: len(items)].tolist()
    assert len(items) >= D
    assert all(0 < step.residual <= 1 for step in steps)


def test_groups_take_turns_until_one_runs_out():
    # orthogonal rows: S_ij = 1/2 for all pairs, so relevance alone orders the items of a group
    features = np.eye(6, dtype=np.float32)
    r = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], np.float32)
    groups = np.array([0, 0, 0, 0, 1, 1])
    chosen = [step.item for step in greedy_steps(features, r, 0.01, groups)]
    assert chosen == [0, 4, 1, 5, 2, 3]
    assert [step.item for step in greedy_steps(features, r, 0.01)] == [0, 1, 2, 3, 4, 5]


def test_what_does_not_fit_leaves_the_others_their_gains():
    features, r = problem(3)
    dear = {0, 4, 5}
    steps = list(greedy_steps(features, r, 0.1, fits=lambda item: item not in dear))
    valid = jnp.asarray([i not in dear for i in range(N)])
    expected = greedy_map_from_features(
        jnp.asarray(features), jnp.asarray(r - r.max()), N, 0.1, valid
    )
    assert len(steps) < N - 2
    assert [step.item for step in steps] == expected.items[: len(steps)].tolist()
    gains = [step.gain for step in steps]
    np.testing.assert_allclose(gains, expected.gains[: len(gains)], rtol=1e-3, atol=1e-4)


def test_what_waits_comes_after_the_rest_of_its_group():
    # orthogonal rows, as above
    features = np.eye(6, dtype=np.float32)
    r = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], np.float32)
    slow = {0, 2, 4, 5}
    chosen = [step.item for step in greedy_steps(features, r, 0.01, waits=slow.__contains__)]
    assert chosen == [1, 3, 0, 2, 4, 5]
    groups = np.array([0, 0, 0, 0, 1, 1])
    chosen = [
        step.item for step in greedy_steps(features, r, 0.01, groups, waits=slow.__contains__)
    ]
    assert chosen == [1, 4, 3, 5, 0, 2]
    steps = greedy_steps(features, r, 0.01, fits=lambda item: item != 2, waits=slow.__contains__)
    assert [step.item for step in steps] == [1, 3, 0, 4, 5]
    # an item's gain is given all that were chosen before it: item 1 repeats item 0 but for 1 − ((1
    # + 0.8) / 2)²
    features = np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 0, 1]], np.float32)
    first, _, last = greedy_steps(
        features, np.ones(3, np.float32), 0.1, waits=lambda item: item < 2
    )
    assert (first.item, last.item) == (2, 1)
    assert first.gain == pytest.approx(0)
    kernel = np.array([[1, 0.9, 0.5], [0.9, 1, 0.5], [0.5, 0.5, 1]])
    assert last.gain == pytest.approx(np.linalg.slogdet(kernel)[1] - np.log(0.75), rel=1e-4)


def test_nothing_to_choose_from():
    assert list(greedy_steps(np.zeros((0, D), np.float32), np.zeros(0, np.float32), 0.1)) == []


@pytest.mark.parametrize("trade_off", [0.01, 0.1])
def test_a_constant_part_of_all_vectors_changes_no_choice_with_its_origin(trade_off):
    # v ↦ (√a, √(1−a) v) takes every cosine c to a + (1 − a) c, and an origin of 0.2 to a + (1 − a) 0.2
    features, _ = problem(3)
    query = problem(4)[0][0]
    for a in (0.3, 0.7):
        with_constant = np.column_stack([np.full(N, np.sqrt(a)), np.sqrt(1 - a) * features])
        picks = []
        for vectors, cosines, origin in (
            (features, features @ query, 0.2),
            (with_constant, a + (1 - a) * (features @ query), a + (1 - a) * 0.2),
        ):
            relevance = similarity(rescaled(cosines, origin))
            steps = greedy_steps(vectors, relevance, trade_off, origin=origin)
            picks.append([step.item for step in steps])
        assert picks[0] == picks[1]
        assert len(picks[0]) > 2
