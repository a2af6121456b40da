import numpy as np
import pytest

from ceil_jax.intervals import bootstrap_interval


def test_interval_of_a_mean_is_near_the_normal_one():
    values = np.random.default_rng(0).integers(0, 2, size=400).astype(float)
    found = bootstrap_interval(values)
    half = 1.96 * values.std() / np.sqrt(400)
    assert found.mean == values.mean()
    assert found.low == pytest.approx(values.mean() - half, abs=0.006)
    assert found.high == pytest.approx(values.mean() + half, abs=0.006)


def test_equal_values_have_no_spread():
    assert bootstrap_interval(np.ones(5)) == (1.0, 1.0, 1.0)


def test_it_is_reproducible():
    values = np.arange(20.0)
    assert bootstrap_interval(values) == bootstrap_interval(values)


def test_no_values():
    with pytest.raises(ValueError, match="no values"):
        bootstrap_interval(np.zeros(0))
