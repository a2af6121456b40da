"""Ranking by score: the highest first, and ties in order of position.

`index.top_k` searches vectors; this module sorts scores that have already been computed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int


def best_first(scores: Float[np.ndarray, " n"], k: int) -> Int[np.ndarray, " k"]:
    """Return the positions of the k highest scores, the highest first, and ties in order of
    position.

    If k is larger than the number of scores, all are returned.

    >>> best_first(np.array([0.2, 0.9, 0.5, 0.9]), k=3).tolist()
    [1, 3, 2]
    """
    n = len(scores)
    positions = np.arange(n)
    if k < n:
        # all scores at or above the k-th highest, so that equal ones are still ordered by position
        lowest = np.partition(scores, n - k)[n - k] if k > 0 else np.inf
        positions = np.flatnonzero(scores >= lowest)
    return positions[np.argsort(-scores[positions], kind="stable")][:k]


def earlier_equals(values: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return for each value how many equal values come before it.

    >>> earlier_equals(np.array([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    n = len(values)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    # where each run of equal values begins
    is_first = np.ones(n, bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    begins = np.flatnonzero(is_first)
    lengths = np.diff(np.append(begins, n))
    counts = np.empty(n, np.int64)
    counts[order] = np.arange(n) - np.repeat(begins, lengths)
    return counts


def descending(scores: Float[np.ndarray, " n"], count: int) -> Iterator[int]:
    """Yield the positions of the scores above −inf, in the order of `best_first`.

    Scores are sorted only as far as the caller iterates.

    Args:
        scores: −inf for positions to leave out.
        count: how many are sorted at first, then four times as many, and so on.
    """
    start = 0
    size = max(count, 1)
    while start < len(scores):
        # sorted anew from the best one, of which the first `start` have been yielded
        for position in best_first(scores, size)[start:].tolist():
            if scores[position] == -np.inf:
                return
            yield position
        start = min(size, len(scores))
        size *= 4
