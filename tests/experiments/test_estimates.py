"""Means over tasks that share rows, and interval ends that are too near to zero to call."""

import numpy as np
import pytest
from harness.estimates import Estimate, estimate

from ceil_jax.metrics.bootstrap import Interval, Sample, mean, paired

DRAWN = np.random.default_rng(0).normal(0.02, 0.1, (4, 400, 1))


def of_tasks(*names):
    return estimate({name: Sample(DRAWN[place], mean) for place, name in enumerate(names)})


def width(found):
    return found.interval.high - found.interval.low


def test_tasks_that_share_rows_are_as_sure_as_one_of_them():
    one = width(of_tasks("sst5"))
    apart = width(of_tasks("sst5", "cmsqa"))
    shared = width(of_tasks("sst5", "movie_reviews"))
    assert apart == pytest.approx(one / np.sqrt(2), rel=0.1)
    assert shared == pytest.approx(one, rel=0.1)
    assert (
        of_tasks("sst5", "cmsqa").interval.mean == of_tasks("sst5", "movie_reviews").interval.mean
    )


def test_of_four_tasks_two_and_two_share_rows():
    four = width(of_tasks("sst5", "geoquery", "movie_reviews", "geoquery.template"))
    assert four == pytest.approx(width(of_tasks("sst5")) / np.sqrt(2), rel=0.1)


def moved(end):
    """A difference on one task whose lower end lies that far above zero, in points."""
    values = DRAWN[0] - estimate({"a": Sample(DRAWN[0], mean)}).interval.low / 100
    return estimate({"a": Sample(values + end / 100, mean)})


def test_an_end_within_its_own_error_touches_zero():
    near, above, below = moved(0.0), moved(0.2), moved(-0.2)
    assert near.touches_zero
    assert not near.excludes_zero
    assert str(near.difference()).endswith(", touches zero)")
    assert not above.touches_zero
    assert above.excludes_zero
    assert not below.touches_zero
    assert not below.excludes_zero
    assert "touches" not in f"{above.difference()}{below.difference()}"


def test_more_resamples_decide_what_few_cannot():
    # the error of an end of 10,000 resamples is about three times that of 100,000
    spread = 100 * 0.1 / np.sqrt(400)
    errors = [0.0268 * spread / 1.0 * share for share in (0.0, 1.7)]
    assert [moved(error).touches_zero for error in errors] == [True, False]


def test_equal_values_touch_nothing():
    found = estimate({"a": Sample(np.zeros((5, 1)), mean)})
    assert found == Estimate(Interval(0, 0, 0))


def test_a_mean_over_tasks_counts_each_the_same():
    rng = np.random.default_rng(1)
    few, many = (rng.integers(0, 2, size=(n, 1)).astype(float) for n in (100, 900))
    found = estimate({"few": Sample(few, mean), "many": Sample(many, mean)}).interval
    assert found.mean == pytest.approx(50 * (few.mean() + many.mean()))
    half = 50 * 1.96 * np.hypot(few.std() / 10, many.std() / 30)
    assert found.low == pytest.approx(found.mean - half, abs=0.6)
    assert found.high == pytest.approx(found.mean + half, abs=0.6)


def test_a_task_on_which_nothing_varies_adds_no_doubt():
    same = Sample(np.random.default_rng(2).integers(0, 2, size=(200, 1)).astype(float), mean)
    alone = estimate({"a": same}).interval
    found = estimate({"a": same, "b": paired(same, same)}).interval
    assert found == pytest.approx([number / 2 for number in alone])
