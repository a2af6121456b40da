"""Cutting of examples to a token budget: which of the chosen ones stay in a prompt."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Int


def fitting_prefix(
    costs: Int[np.ndarray, "*b k"], budget: Int[np.ndarray, "*b"] | int
) -> Bool[np.ndarray, "*b k"]:
    """Return which examples stay: the longest prefix that is within the budget.

    Everything after the first example that does not fit is dropped, even if it is shorter, so that
    the examples that stay are always the first ones.

    Args:
        costs: the tokens of each example, at least 0, in order.
        budget: the tokens that are available for examples.

    >>> fitting_prefix(np.array([30, 50, 40, 5]), 100).tolist()
    [True, True, False, False]
    """
    return np.cumsum(costs, axis=-1) <= np.asarray(budget)[..., None]


def most_that_fit(count: int, fits: Callable[[int], bool]) -> int:
    """Return how many of `count` examples stay if the last one is dropped until the rest fits.

    A text may have more tokens than its parts, because a tokenizer may split differently where
    parts meet. So the whole text is counted after the parts have been found to fit.

    Args:
        count: number of examples whose separate tokens are within the budget.
        fits: a function that tells whether the text of the first n examples is within the budget.

    >>> most_that_fit(5, lambda count: 30 * count + 2 <= 100)
    3
    """
    while count > 0 and not fits(count):
        count -= 1
    return count
