"""How sure a number is: bootstrap intervals over examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000

_AT_ONCE = 12_000_000
"""Places of resamples held at a time: bounds the memory to a few hundred MB."""

Statistic = Callable[[np.ndarray, int], np.ndarray]
"""Sums over N examples [..., s] and N to one number each [...]; it must be a function of sums."""


class Interval(NamedTuple):
    """A value and its 95 % percentile-bootstrap interval."""

    mean: float
    low: float
    high: float

    def percent(self) -> Interval:
        """All three times 100."""
        return Interval(*(100 * number for number in self))


def mean(sums: np.ndarray, count: int) -> np.ndarray:
    """The mean over examples of the one column, or of all columns."""
    return sums.mean(axis=-1) / count


def bootstrap_interval(
    values: np.ndarray, statistic: Statistic = mean, *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """A statistic of per-example values [N] or [N, s] with its interval over resampled examples.

    For a paired comparison give the differences of two methods on the same examples, or, for a statistic
    that is no mean, the columns of both and the difference of the two statistics.

    Raises:
        ValueError: no values.
    """
    values = np.asarray(values, np.float64)
    if values.size == 0:
        raise ValueError("no values to bootstrap")
    count = len(values)
    values = values.reshape(count, -1)
    here = float(statistic(values.sum(axis=0), count))
    if not np.ptp(values, axis=0).any():
        return Interval(here, here, here)
    rng = np.random.default_rng(seed)
    batch = max(1, _AT_ONCE // count)
    found = []
    for start in range(0, resamples, batch):
        rows = min(batch, resamples - start)
        drawn = rng.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)
        found.append(statistic(times @ values, count))
    low, high = np.percentile(np.concatenate(found), [2.5, 97.5])
    return Interval(here, float(low), float(high))


def seeds_interval(statistics: np.ndarray, statistic: Statistic) -> Interval:
    """The mean over seeds of a statistic, over resampled examples; all seeds see the same resamples.

    Args:
        statistics: float [S, N, s].
    """
    return bootstrap_interval(_columns(statistics), _over_seeds(statistic, len(statistics)))


def paired_interval(ours: np.ndarray, theirs: np.ndarray, statistic: Statistic) -> Interval:
    """How much higher our mean over seeds is than theirs on the same examples.

    Args:
        ours: float [S, N, s].
        theirs: float [S', N, s].
    """
    first, second = (_over_seeds(statistic, len(side)) for side in (ours, theirs))
    cut = ours.shape[0] * ours.shape[2]
    both = np.concatenate([_columns(ours), _columns(theirs)], axis=1)
    return bootstrap_interval(both, lambda sums, n: first(sums[..., :cut], n) - second(sums[..., cut:], n))


def _columns(statistics: np.ndarray) -> np.ndarray:
    """[S, N, s] → [N, S · s]."""
    return statistics.transpose(1, 0, 2).reshape(statistics.shape[1], -1)


def _over_seeds(statistic: Statistic, seeds: int) -> Statistic:
    return lambda sums, n: statistic(sums.reshape(*sums.shape[:-1], seeds, -1), n).mean(axis=-1)
