import numpy as np
import pytest

from ceil_jax.metrics.bootstrap import (
    Sample,
    averaged_interval,
    bootstrap_interval,
    mean,
    metric_interval,
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


def test_it_is_reproducible():
    values = np.arange(20.0)
    assert bootstrap_interval(values) == bootstrap_interval(values)


def test_no_values():
    with pytest.raises(ValueError, match="no values"):
        bootstrap_interval(np.zeros(0))


def test_an_average_over_tasks_counts_each_the_same():
    rng = np.random.default_rng(1)
    few, many = (rng.integers(0, 2, size=(n, 1)).astype(float) for n in (100, 900))
    found = averaged_interval([Sample(few, mean), Sample(many, mean)])
    assert found.mean == pytest.approx((few.mean() + many.mean()) / 2)
    half = 1.96 * np.hypot(few.std() / 10, many.std() / 30) / 2
    assert found.low == pytest.approx(found.mean - half, abs=0.006)
    assert found.high == pytest.approx(found.mean + half, abs=0.006)


def test_tasks_of_one_size_are_resampled_apart():
    values = np.random.default_rng(3).integers(0, 2, size=(400, 1)).astype(float)
    found = averaged_interval([Sample(values, mean), Sample(values, mean)])
    half = 1.96 * values.std() / 20 / np.sqrt(2)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.05)


def test_a_task_on_which_nothing_varies_adds_no_doubt():
    values = np.random.default_rng(2).integers(0, 2, size=(200, 1)).astype(float)
    alone = bootstrap_interval(values)
    same = Sample(values, mean)
    found = averaged_interval([same, paired(same, same)])
    assert found == pytest.approx([number / 2 for number in alone])
