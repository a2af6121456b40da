import numpy as np
import pytest

from ceil_jax.metrics import bootstrap
from ceil_jax.metrics.bootstrap import (
    Sample,
    bootstrap_interval,
    by_group,
    mean,
    metric_interval,
    over_seeds,
    paired,
)


def test_interval_of_a_mean_is_near_the_normal_one():
    values = np.random.default_rng(0).integers(0, 2, size=400).astype(float)
    found = bootstrap_interval(values)
    half = 1.96 * values.std() / np.sqrt(400)
    assert found.mean == values.mean()
    assert found.low == pytest.approx(values.mean() - half, abs=0.006)
    assert found.high == pytest.approx(values.mean() + half, abs=0.006)


def test_equal_values_have_no_spread():
    assert bootstrap_interval(np.ones(5)) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_proportion_at_its_end_has_wilsons_interval(value):
    found = metric_interval(Sample(np.full((20, 1), value), mean))
    # the score test: the p at which the observed proportion lies 1.96 standard errors away
    p = found.high if value == 0 else found.low
    assert abs(value - p) / np.sqrt(p * (1 - p) / 20) == pytest.approx(1.96, abs=1e-3)
    assert (found.low if value == 0 else found.high) == value
    mixed = np.array([[0.0], [1.0], [1.0]])
    assert metric_interval(Sample(mixed, mean)) == bootstrap_interval(mixed)


def test_draws_that_cells_share_give_each_what_it_has_alone(monkeypatch):
    rng = np.random.default_rng(7)
    cells = [over_seeds(rng.random((3, 40, 1)), mean) for _ in range(3)]
    at_once = bootstrap_interval(cells[0].values[:, 0])
    monkeypatch.setattr(
        bootstrap, "_AT_ONCE", 40 * 4_000
    )  # the 10,000 resamples come in three batches
    assert bootstrap_interval(cells[0].values[:, 0]) == at_once
    alone = []
    for cell in cells:
        bootstrap._first_draws.cache_clear()
        alone.append(bootstrap_interval(*cell))
    assert len(set(alone)) == 3
    assert [bootstrap_interval(*cell) for cell in cells] == alone
    assert [bootstrap_interval(*cell) for cell in reversed(cells)] == alone[::-1]


def test_no_values():
    with pytest.raises(ValueError, match="no values"):
        bootstrap_interval(np.zeros(0))


def test_questions_are_resampled_with_all_of_their_examples():
    # two questions, one asked three times: their resamples are 0, 1, or 3 of 4 right
    sample = by_group(Sample(np.array([[1.0], [1.0], [0.0], [1.0]]), mean), np.array([0, 0, 1, 0]))
    assert len(sample.values) == 2
    found = bootstrap_interval(*sample)
    assert (found.mean, found.low, found.high) == (0.75, 0, 1)
    # a copy of every example says nothing new
    values = np.array([[1.0], [0.0], [0.0], [1.0], [1.0]])
    once = bootstrap_interval(values)
    questions = np.tile(np.arange(5), 2)
    assert bootstrap_interval(*by_group(Sample(np.tile(values, (2, 1)), mean), questions)) == once
    twice = over_seeds(np.stack([np.tile(values, (2, 1)), np.tile(values, (2, 1))]), mean)
    assert bootstrap_interval(*by_group(twice, questions)) == once


def test_different_questions_are_resampled_as_they_were():
    sample = Sample(np.array([[1.0], [0.0]]), mean)
    assert by_group(sample, np.array([4, 2])) is by_group(sample, None) is sample


def test_seeds_are_resampled_too():
    rng = np.random.default_rng(4)
    rates = np.array([0.2, 0.5, 0.8])  # training is a lottery, each of whose prizes is known well
    seeds = (rng.random((3, 400)) < rates[:, None]).astype(float)[..., None]
    found = bootstrap_interval(*over_seeds(seeds, mean))
    assert found.mean == pytest.approx(seeds.mean())
    # one of 27 draws holds the worst seed alone, and one the best
    assert found.low == pytest.approx(0.2, abs=0.06)
    assert found.high == pytest.approx(0.8, abs=0.06)
    alone = bootstrap_interval(*over_seeds(seeds[:1], mean))
    assert alone == bootstrap_interval(seeds[0])


def test_differences_are_paired_by_seed_and_example():
    values = np.random.default_rng(5).integers(0, 2, size=(3, 50, 1)).astype(float)
    ours = over_seeds(values, mean)
    theirs = over_seeds(values * [[[0]], [[1]], [[1]]], mean)
    assert bootstrap_interval(*paired(ours, ours)) == (0, 0, 0)
    # the two seeds that do not differ may be drawn alone
    assert bootstrap_interval(*paired(ours, theirs)).low == 0
    one = over_seeds(values[:1], mean)
    two = over_seeds(values[:2], mean)
    for other in (one, two):
        expected = ours.values.mean() - other.values.mean()
        for pair, sign in (((ours, other), 1), ((other, ours), -1)):
            assert bootstrap_interval(*paired(*pair)).mean == pytest.approx(sign * expected)
    found, turned = (bootstrap_interval(*paired(*pair)) for pair in ((ours, two), (two, ours)))
    assert (found.low, found.high) == pytest.approx((-turned.high, -turned.low))


def test_seeds_on_which_no_example_differs_still_differ():
    found = bootstrap_interval(*over_seeds(np.stack([np.zeros((9, 1)), np.ones((9, 1))]), mean))
    assert (found.mean, found.low, found.high) == (0.5, 0, 1)
