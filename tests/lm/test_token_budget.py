"""The examples that stay under a token budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceil_jax.lm.token_budget import fitting_prefix, most_that_fit


@given(st.lists(st.integers(0, 20), max_size=8), st.integers(0, 60))
def test_the_longest_prefix_within_the_budget_stays(costs, budget):
    stays = fitting_prefix(np.array(costs, int), budget)
    count = max(n for n in range(len(costs) + 1) if sum(costs[:n]) <= budget)
    # an example without tokens behind the last that fits is within the budget too
    assert stays.tolist() == [place < count for place in range(len(costs))]


def test_each_row_has_its_own_budget():
    costs = np.array([[5, 5, 5], [5, 5, 5]])
    stays = fitting_prefix(costs, np.array([10, 4]))
    assert stays.tolist() == [[True, True, False], [False, False, False]]


def test_a_short_example_behind_one_that_does_not_fit_is_dropped():
    assert fitting_prefix(np.array([4, 9, 1]), 10).tolist() == [True, False, False]


@pytest.mark.parametrize(("most", "count"), [(9, 4), (4, 4), (2, 2), (0, 0)])
def test_the_last_is_dropped_until_the_whole_fits(most, count):
    asked = []

    def fits(size):
        asked.append(size)
        return size <= most

    assert most_that_fit(4, fits) == count
    # no whole is counted twice, and none below the first that fits
    assert asked == list(range(4, max(count, 1) - 1, -1))
