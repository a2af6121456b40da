"""The best of scores that are there already: highest first, equal ones by position.

`index.top_k` searches vectors; this module orders what a score was computed for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int


def best_first(scores: Float[np.ndarray, " n"], k: int) -> Int[np.ndarray, " k"]:
    """Return the positions of the k highest scores, highest first, equal ones by position; all n
    where k is larger.

    >>> best_first(np.array([0.2, 0.9, 0.5, 0.9]), k=3).tolist()
    [1, 3, 2]
    """
    n = len(scores)
    positions = np.arange(n)
    if k < n:
        # all at or above the k-th highest score: a cut through equal scores would lose their order
        lowest = np.partition(scores, n - k)[n - k] if k > 0 else np.inf
        positions = np.flatnonzero(scores >= lowest)
    return positions[np.argsort(-scores[positions], kind="stable")][:k]


def earlier_equals(values: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return how many equal values stand before each value.

    >>> earlier_equals(np.array([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    position = np.arange(len(values))
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(values)])
    lengths = np.diff(np.append(begins, len(values)))
    counts = np.empty(len(values), np.int64)
    counts[order] = position - np.repeat(begins, lengths)
    return counts


def descending(scores: Float[np.ndarray, " n"], count: int) -> Iterator[int]:
    """Iterate over the positions of the scores above −inf, as `best_first` orders them.

    Only as much is sorted as is asked for.

    Args:
        scores: −inf for what must not come.
        count: how many are sorted at first; then four times as many, and so on.
    """
    done = 0
    size = max(count, 1)
    while done < len(scores):
        for position in best_first(scores, size)[done:].tolist():
            if scores[position] == -np.inf:
                return
            yield position
        done = min(size, len(scores))
        size *= 4
