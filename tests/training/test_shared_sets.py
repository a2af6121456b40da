"""Pools, random sets and what their scores say of each example, on scores whose effects are known."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from ceil_jax.training.shared_sets import (
    PENALTIES,
    Effects,
    balanced_sets,
    best_set,
    challengers,
    diverse_pool,
    fair_shares,
    fit_effects,
    measured_by,
    set_values,
    top_sets,
)

GROUPS = np.arange(24) % 3


def planted(count, noise, seed=0):
    """Sets of six, and scores that are sums of known effects and noise."""
    generator = np.random.default_rng(seed)
    theta = generator.normal(size=24)
    sets = balanced_sets(GROUPS, count, 6, seed)
    return theta, sets, theta[sets].sum(axis=1) + noise * generator.normal(size=count)


def test_shares_are_fair_and_what_is_left_goes_by_the_order():
    order = np.array([0, 1, 2])
    assert fair_shares(np.array([9, 9, 9]), 6, order).tolist() == [2, 2, 2]
    assert fair_shares(np.array([9, 9, 9]), 7, order[::-1]).tolist() == [2, 2, 3]
    assert fair_shares(np.array([1, 9, 9]), 7, order).tolist() == [1, 3, 3]
    assert fair_shares(np.array([1, 2, 0]), 7, order).tolist() == [1, 2, 0]


def test_a_pool_has_as_many_of_each_label_and_no_copies_and_nothing_long():
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(60, 8)).astype(np.float32)
    vectors[30:40] = vectors[0]
    groups = np.arange(60) % 3
    lengths = np.full(60, 20)
    lengths[:6] = 400
    pool = diverse_pool(vectors, groups, lengths, 12, seed=1)
    assert Counter(groups[pool].tolist()) == {0: 4, 1: 4, 2: 4}
    assert set(range(6)).isdisjoint(pool.tolist())
    for group in range(3):
        copies = [i for i in pool.tolist() if 30 <= i < 40 and groups[i] == group]
        assert len(copies) <= 1
    assert (diverse_pool(vectors, groups, lengths, 12, seed=1) == pool).all()
    # more labels than places: the largest have one each
    many = np.append(np.arange(20), np.repeat([3, 7], 20))
    few = diverse_pool(vectors, many, np.full(60, 20), 2, seed=1)
    assert sorted(many[few].tolist()) == [3, 7]


def test_sets_are_balanced_and_different_and_use_all_examples_alike():
    sets = balanced_sets(GROUPS, 40, 7, seed=3)
    assert sets.shape == (40, 7)
    assert len({tuple(one) for one in sets.tolist()}) == 40
    assert (np.diff(sets, axis=1) > 0).all()
    for one in sets:
        counts = np.bincount(GROUPS[one], minlength=3)
        assert counts.max() - counts.min() <= 1
    uses = np.bincount(sets.ravel(), minlength=24)
    assert uses.max() - uses.min() <= 3
    # a pool of four has four sets of three
    assert len(balanced_sets(np.zeros(4, int), 40, 3, seed=3)) == 4


def test_a_ridge_finds_the_effects_that_made_the_scores():
    theta, sets, values = planted(120, noise=0.5)
    effects = fit_effects(sets, values, 24)
    assert np.corrcoef(effects.theta, theta)[0, 1] > 0.9
    others = balanced_sets(GROUPS, 60, 6, seed=9)
    truth = theta[others].sum(axis=1)
    error = np.sqrt(np.mean((effects.predict(others) - truth) ** 2))
    assert error < 0.5 * truth.std()
    # scores without any effect: nothing is claimed
    noise = np.random.default_rng(4).normal(size=120)
    assert np.abs(fit_effects(sets, noise, 24).theta).max() < 0.5


def test_the_ridge_is_the_one_with_the_smallest_error_on_sets_left_out():
    _, sets, values = planted(30, noise=1.0)
    member = np.zeros((30, 24))
    for row, one in enumerate(sets):
        member[row, one] = 1

    def solved(rows, penalty):
        """b and θ of some sets: b is not penalised."""
        x = np.column_stack([np.ones(len(rows)), member[rows]])
        ridge = penalty * np.eye(25)
        ridge[0, 0] = 0
        return np.linalg.solve(x.T @ x + ridge, x.T @ values[rows])

    def error(penalty):
        total = 0.0
        for out in range(30):
            rows = [row for row in range(30) if row != out]
            b, *theta = solved(rows, penalty)
            total += (values[out] - b - member[out] @ theta) ** 2
        return total / 30

    penalty = min(PENALTIES, key=error)
    b, *theta = solved(range(30), penalty)
    effects = fit_effects(sets, values, 24)
    assert effects.theta == pytest.approx(theta)
    assert effects.predict(sets) == pytest.approx(b + member @ theta)
    x = member - member.mean(axis=0)
    inverse = np.linalg.inv(x.T @ x + penalty * np.eye(24))
    assert effects.covariance == pytest.approx(error(penalty) * inverse)


def test_the_best_set_is_the_best_of_all_that_are_balanced():
    theta = np.random.default_rng(1).normal(size=9)
    groups = np.arange(9) % 3
    allowed = [
        one
        for one in combinations(range(9), 4)
        if np.bincount(groups[list(one)]).max() <= 2  # a share of 4/3, rounded up
    ]
    expected = max(allowed, key=lambda one: theta[list(one)].sum())
    assert tuple(best_set(theta, groups, 4).tolist()) == expected
    # where a label has too few, others fill the set
    assert len(best_set(theta, np.array([0] * 8 + [1]), 6)) == 6


def test_challengers_are_new_and_better_than_random_sets():
    theta, sets, values = planted(60, noise=1.0)
    effects = fit_effects(sets, values, 24)
    found = challengers(effects, GROUPS, 6, 10, sets, seed=0)
    assert len({tuple(one) for one in found.tolist()}) == len(found) == 10
    assert {tuple(one) for one in sets.tolist()}.isdisjoint(tuple(one) for one in found.tolist())
    assert theta[found].sum(axis=1).mean() > np.quantile(theta[sets].sum(axis=1), 0.9)
    assert (challengers(effects, GROUPS, 6, 10, sets, seed=0) == found).all()
    certain = Effects(0.0, np.zeros(3), np.array([3.0, 2.0, 1.0]), np.zeros((3, 3)))
    one_group = np.zeros(3, int)
    assert challengers(certain, one_group, 2, 5, np.array([[0, 1]]), seed=0).shape == (0, 2)


def test_what_a_set_is_worth_by_its_scores():
    right = np.log(np.array([[0.9, 0.5], [0.1, 0.5]]))
    assert set_values("choice", right) == pytest.approx([0.5, 0.5])
    assert set_values("metric", np.array([[1.0, 0.0], [1.0, 1.0]])).tolist() == [1.0, 0.5]
    # one long output whose log P is a hundred times as far apart counts as one query
    written = np.array([[-1.0, -2.0], [-1.0, -2.0], [-700.0, -100.0], [-5.0, -5.0]])
    assert set_values("lm_scores", written) == pytest.approx([0.25, -0.25])
    assert measured_by({"lm_scores": right, "choice": right}) == "choice"
    assert measured_by({"metric": right}) == "metric"


def test_finalists_are_those_that_did_well_and_are_expected_to():
    effects = Effects(0.0, np.zeros(4), np.array([1.0, 0.0, -1.0, 0.5]), np.eye(4))
    sets = np.array([[0], [1], [2], [3]])
    # promise: (0 + 1) / 2, (0.9 + 0) / 2, (0.9 − 1) / 2, (0.8 + 0.5) / 2
    values = np.array([0.0, 0.9, 0.9, 0.8])
    assert top_sets(sets, values, effects, 2).tolist() == [3, 0]
