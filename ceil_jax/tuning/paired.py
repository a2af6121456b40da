"""Paired permutation tests of two methods on the same rows.

p-values are corrected for many comparisons.

The two answers to a row are swapped at random: if the methods do not differ, a swap is as likely as
none. If all differences have one size, as with right and wrong answers, the sum is binomial and the
test is exact (McNemar's).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import bdtrc

from ceil_jax.metrics.bootstrap import Sample

DRAWS = 20_000
"""The number of random swaps that a test draws if it is not exact."""


def chance(better: Sample, worse: Sample) -> float:
    """Return the one-sided p-value of a difference.

    The share of swaps with at least as large a difference.

    The samples are of the same N rows.

    >>> import numpy as np
    >>> from ceil_jax.metrics.bootstrap import Sample, mean
    >>> chance(Sample(np.ones((5, 1)), mean), Sample(np.zeros((5, 1)), mean))  # 1 of 2⁵ swaps
    0.03125
    """
    count = len(better.values)
    ours = np.asarray(better.values, np.float64).reshape(count, -1)
    theirs = np.asarray(worse.values, np.float64).reshape(count, -1)
    change = theirs - ours
    if ours.shape[1] == 1 and _one_size(change):
        return float(chances(-change.T)[0])

    def difference(our_sums: np.ndarray, their_sums: np.ndarray) -> np.ndarray:
        return better.statistic(our_sums, count) - worse.statistic(their_sums, count)

    swaps = np.random.default_rng(0).integers(2, size=(DRAWS, count)).astype(np.float64)
    moved = swaps @ change
    measured = difference(ours.sum(0), theirs.sum(0))
    swapped = difference(ours.sum(0) + moved, theirs.sum(0) - moved)
    return float((1 + np.count_nonzero(swapped >= measured - 1e-12)) / (1 + DRAWS))


def chances(differences: np.ndarray, draws: int = DRAWS) -> np.ndarray:
    """Return the one-sided p-value of each mean difference against 0, float64 [A].

    `differences` [A, N] say how much better each of A methods is on each of N rows.
    """
    differences = np.asarray(differences, np.float64)
    if _one_size(differences):
        up = (differences > 0).sum(1)
        down = (differences < 0).sum(1)
        # P(X ≥ up), where X is the number of heads of up + down fair coins
        return bdtrc(up - 1.0, up + down, 0.5)
    signs = 2.0 * np.random.default_rng(0).integers(2, size=(draws, differences.shape[1])) - 1
    measured = differences.sum(1)
    swapped = signs @ differences.T
    return (1 + np.count_nonzero(swapped >= measured - 1e-12, axis=0)) / (1 + draws)


def draws_for(level: float) -> int:
    """Return the number of random swaps that can give a p-value below a level."""
    return max(DRAWS, int(4 / level))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number (Holm, 1979).

    Those below 0.05 hold jointly with 95 % confidence.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    adjusted = [1.0] * len(p_values)
    least = 0.0
    for rank, test in enumerate(np.argsort(p_values, kind="stable")):
        least = max(least, min(1.0, p_values[test] * (len(p_values) - rank)))
        adjusted[test] = least
    return adjusted


def _one_size(differences: np.ndarray) -> bool:
    """Return whether all differences that are not 0 have the same absolute value."""
    sizes = np.unique(np.abs(differences))
    return len(sizes[sizes > 0]) <= 1
