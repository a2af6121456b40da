"""Choosing over scores, worked out by hand."""

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm.choosing import ByChoices, flat_choices, likelihoods


def test_choices_are_flattened_and_grouped_again():
    choices = [["a", "b"], ["c"]]
    flat = flat_choices(["x", "y"], choices)
    assert flat == ([0, 0, 1], ["x", "x", "y"], ["a", "b", "c"])
    found = likelihoods([1.0, 2.0, 3.0], [1, 1, 1], choices, per_token=False)
    assert [row.tolist() for row in found] == [[1, 2], [3]]


@pytest.mark.parametrize("choices", [[["a"], []], [["a"], "ab"]])
def test_each_prompt_needs_a_list_of_choices(choices):
    with pytest.raises(UserError, match="prompt 1 has choices"):
        flat_choices(["x", "y"], choices)


def test_the_most_likely_choice_wins_and_the_first_of_equals():
    class Known(ByChoices):
        def choice_log_likelihood(self, prompts, choices, *, per_token=False):
            return [np.array([{"a": -3.0, "b": -2.0, "c": -2.0}[text] for text in some]) for some in choices]

    assert Known().choose(["x", "y"], [["a", "b", "c"], ["a"]]).tolist() == [1, 0]
    assert Known().log_likelihood(["x", "y"], ["a", "c"]).tolist() == [-3, -2]


def test_per_token_compares_means_and_an_empty_choice_counts_as_one_token():
    #                                  -3/3 = -1, -2/1, -1.5/1
    [means] = likelihoods([-3.0, -2.0, -1.5], [3, 1, 0], [["a", "b", "c"]], per_token=True)
    assert means.tolist() == [-1, -2, -1.5]
