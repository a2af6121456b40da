"""Self-consistency (Wang et al. 2022): several answers to a query are given, and the most frequent one is taken."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Literal, NamedTuple

import numpy as np

By = Literal["samples", "orders"]
"""The difference between the answers: the draw, or the order of the examples in the prompt."""


class Voting(NamedTuple):
    """How a query's answers are collected."""

    answers: int = 1
    """Number of answers to each query; 1 is the greedy answer to the prompt as it is."""
    by: By = "samples"
    """samples: drawn at `temperature`; orders: greedy, each with the examples in another order."""
    temperature: float = 0.7
    """Sampling temperature."""
    seed: int = 0
    """Seeds the orders. Samples are seeded by their number, so that more of them begin with the fewer."""

    def text(self) -> str:
        """Return a sentence for a table's notes; empty without voting."""
        if self.answers == 1:
            return ""
        what = (
            f"samples at temperature {self.temperature:g}"
            if self.by == "samples"
            else "orders of the examples"
        )
        return f"Each answer is the most frequent one of {self.answers} {what}."


GREEDY = Voting()
"""One greedy answer to each prompt."""


def most_frequent(answers: Sequence[str]) -> str:
    """Return the answer that was given most often; of equally frequent ones, the one that was given first.

    >>> most_frequent(["b", "a", "a", "b", "c"])
    'b'
    """
    return Counter(answers).most_common(1)[0][0]


def different_orders(count: int, most: int, generator: np.random.Generator) -> list[tuple[int, ...]]:
    """Draw `most` different orders of `count` places, or all if there are no more; the first is 0, 1, …"""
    if math.factorial(count) <= most:
        return list(permutations(range(count)))
    found = {tuple(range(count)): None}
    while len(found) < most:
        found[tuple(generator.permutation(count).tolist())] = None
    return list(found)
