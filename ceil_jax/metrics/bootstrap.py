"""How sure a number is: bootstrap intervals over examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000

_AT_ONCE = 12_000_000
"""Places of resamples held at a time: bounds the memory to a few hundred MB."""

Statistic = Callable[[np.ndarray, int], np.ndarray]
"""Sums over N examples [..., s] and N to one number each [...]; it must be a function of sums."""


class Interval(NamedTuple):
    """A value and its 95 % percentile-bootstrap interval; without width where all examples have one value, which does
    not say that the value is sure."""

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
    here, found = _resampled(values, statistic, resamples, seed)
    return _percentile(here, found)


def _resampled(
    values: np.ndarray, statistic: Statistic, resamples: int, seed: int
) -> tuple[float, np.ndarray]:
    """The statistic of the values, and of resamples of them; a single one where they are all the same."""
    values = np.asarray(values, np.float64)
    if values.size == 0:
        raise ValueError("no values to bootstrap")
    count = len(values)
    values = values.reshape(count, -1)
    here = float(statistic(values.sum(axis=0), count))
    if not np.ptp(values, axis=0).any():
        return here, np.array([here])
    rng = np.random.default_rng(seed)
    batch = max(1, _AT_ONCE // count)
    found = []
    for start in range(0, resamples, batch):
        rows = min(batch, resamples - start)
        drawn = rng.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)
        found.append(statistic(times @ values, count))
    return here, np.concatenate(found)


def _percentile(here: float, found: np.ndarray) -> Interval:
    low, high = np.percentile(found, [2.5, 97.5])
    return Interval(here, float(low), float(high))


def averaged_interval(samples: Sequence[Sample]) -> Interval:
    """The mean over tasks of a statistic each. Every task's examples are resampled by themselves, and a task counts
    the same whatever their number."""
    drawn = [_resampled(*sample, RESAMPLES, seed) for seed, sample in enumerate(samples)]
    here = float(np.mean([value for value, _ in drawn]))
    # a task that never varies is one number, whatever is resampled
    return _percentile(here, np.mean([np.broadcast_to(found, RESAMPLES) for _, found in drawn], axis=0))


class Sample(NamedTuple):
    """Examples, and what is computed from their sums: the arguments of `bootstrap_interval`."""

    values: np.ndarray
    """float [N, c]."""
    statistic: Statistic


def over_seeds(statistics: np.ndarray, statistic: Statistic) -> Sample:
    """The mean over seeds of a statistic; all seeds see the same resamples.

    Args:
        statistics: float [S, N, s].
    """
    seeds, count, _ = statistics.shape
    return Sample(
        statistics.transpose(1, 0, 2).reshape(count, -1),
        lambda sums, n: statistic(sums.reshape(*sums.shape[:-1], seeds, -1), n).mean(axis=-1),
    )


def paired(ours: Sample, theirs: Sample) -> Sample:
    """How much higher our statistic is than theirs on the same examples."""
    cut = ours.values.shape[1]
    return Sample(
        np.concatenate([ours.values, theirs.values], axis=1),
        lambda sums, n: ours.statistic(sums[..., :cut], n) - theirs.statistic(sums[..., cut:], n),
    )
