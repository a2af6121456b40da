"""Cutting examples to a token budget: how many of those that were chosen stand in a prompt."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Int


def fitting_prefix(
    costs: Int[np.ndarray, "*b k"], budget: Int[np.ndarray, "*b"] | int
) -> Bool[np.ndarray, "*b k"]:
    """Return which examples stay: the longest prefix whose tokens are within the budget.

    What comes after the first example that does not fit is dropped too, even where it is shorter,
    so that the examples that stay are always the first ones of their order.

    Args:
        costs: tokens of each example, at least 0, in the order in which examples are taken.
        budget: tokens that there are for examples.

    >>> fitting_prefix(np.array([30, 50, 40, 5]), 100).tolist()
    [True, True, False, False]
    """
    return np.cumsum(costs, axis=-1) <= np.asarray(budget)[..., None]


def most_that_fit(count: int, fits: Callable[[int], bool]) -> int:
    """Return how many of `count` examples stay when the last is dropped until the rest fits.

    The tokens of a text can be more than those of its parts, because a tokenizer may cut
    differently where two parts meet. So the whole text is counted once the parts fit.

    Args:
        count: examples whose own tokens are within the budget.
        fits: number of examples → whether the text of the first so many is within the budget.

    >>> most_that_fit(5, lambda count: 30 * count + 2 <= 100)
    3
    """
    while count > 0 and not fits(count):
        count -= 1
    return count
