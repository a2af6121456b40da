"""Percentile-bootstrap intervals over examples and over seeds of training (Efron 1979).

`scipy.stats.bootstrap` cannot resample groups of examples, or over seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000

_Z = 1.959964
"""The 97.5 % point of the normal distribution."""

_AT_ONCE = 12_000_000
"""The number of resampled examples in memory at a time: a few hundred MB."""

Statistic = Callable[[np.ndarray, int | np.ndarray], np.ndarray]
"""(sums over N examples [..., s], N) -> a number for each sum [...], or for each seed [..., S]. N
may be an int [...], one for each sum."""


class Sample(NamedTuple):
    """Numbers of N examples, float [N, c], and the statistic of their sums.

    They are the arguments of `bootstrap_interval`.
    """

    values: np.ndarray
    statistic: Statistic


class Interval(NamedTuple):
    """A value and its 95 % interval.

    If all values are equal, the interval has no width, which does not mean certainty.
    """

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """True if the interval has a width and does not contain 0.

        A difference is then called significant.
        """
        return self.low < self.high and (self.low > 0 or self.high < 0)

    def percent(self) -> Interval:
        return Interval(*(100 * number for number in self))


def mean(sums: np.ndarray, count: int | np.ndarray) -> np.ndarray:
    """Return the mean over examples, averaged over columns where there are several."""
    return sums.mean(axis=-1) / count


def bootstrap_interval(
    values: np.ndarray, statistic: Statistic = mean, *, resamples: int = RESAMPLES
) -> Interval:
    """Return a statistic of per-example values with its interval over resampled examples.

    The values are float64 [N] or [N, s], and N is at least 1.
    """
    return _percentile(*resampled_values(values, statistic, resamples, 0))


def metric_interval(
    sample: Sample, groups: np.ndarray | None = None, *, resamples: int = RESAMPLES
) -> Interval:
    """Return a metric with its interval over resampled examples.

    If all examples are wrong or all are right, it is Wilson's interval.

    The bootstrap interval of 0 of n would have no width. Wilson (1927) gives 0 to z² / (n + z²),
    with z = 1.96, and the mirror image for n of n. `groups` is as in `by_group`.
    """
    values = np.asarray(sample.values, np.float64)
    grouped = by_group(sample, groups)
    here = bootstrap_interval(*grouped, resamples=resamples)
    if values.size > len(values) or here.mean not in (0.0, 1.0) or (values != here.mean).any():
        return here
    width = _Z**2 / (len(grouped.values) + _Z**2)
    return Interval(here.mean, max(0.0, here.mean - width), min(1.0, here.mean + width))


def resampled_values(
    values: np.ndarray, statistic: Statistic, resamples: int, seed: int
) -> tuple[float, np.ndarray]:
    """Return the statistic of the values, and of their resamples.

    Of a single one if all values are equal.
    """
    values = np.asarray(values, np.float64)
    if values.size == 0:
        raise ValueError("no values to bootstrap")
    count = len(values)
    values = values.reshape(count, -1)
    each = np.asarray(statistic(values.sum(axis=0), count))
    here = float(each.mean())
    if not np.ptp(values, axis=0).any() and not np.ptp(each):
        return here, np.array([here])
    batch = max(1, min(resamples, _AT_ONCE // count))
    times, rng = _first_draws(count, batch, seed)
    rng = deepcopy(rng)
    values_drawn = [statistic(times @ values, count)]
    for start in range(batch, resamples, batch):
        values_drawn.append(
            statistic(_draws(rng, min(batch, resamples - start), count) @ values, count)
        )
    resampled = np.concatenate(values_drawn)
    if resampled.ndim == 1:
        return here, resampled
    # each resample is averaged over as many seeds as there are, drawn with replacement
    seeds = resampled.shape[1]
    times = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples)
    return here, (times * resampled).sum(axis=1) / seeds


@lru_cache(maxsize=16)
def _first_draws(count: int, rows: int, seed: int) -> tuple[np.ndarray, np.random.Generator]:
    """Return the first draws of a seed, and the generator for further draws.

    They are kept for samples of the same size.
    """
    rng = np.random.default_rng(seed)
    return _draws(rng, rows, count), rng


def _draws(rng: np.random.Generator, rows: int, count: int) -> np.ndarray:
    """Return how often each example is in each resample, uint8 [rows, count]: once on average."""
    drawn = rng.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count).astype(np.uint8)


def _percentile(value: float, resampled: np.ndarray) -> Interval:
    low, high = np.percentile(resampled, [2.5, 97.5])
    return Interval(value, float(low), float(high))


def over_seeds(statistics: np.ndarray, statistic: Statistic) -> Sample:
    """Return the statistic of several seeds as a sample.

    Examples are resampled, the same ones for all seeds, and then seeds.

    With few seeds such a hierarchical bootstrap is too narrow: resamples of S seeds vary by (S − 1)
    / S of the variance between seeds. The statistics are float [S, N, s], and `statistic` is a
    function of sums [..., s] for one seed.
    """
    seeds, count, _ = statistics.shape
    return Sample(
        statistics.transpose(1, 0, 2).reshape(count, -1),
        lambda sums, n: statistic(
            sums.reshape(*sums.shape[:-1], seeds, -1), np.asarray(n)[..., None]
        ),
    )


def by_group(sample: Sample, groups: np.ndarray | None) -> Sample:
    """Return a sample whose resamples draw whole groups of examples (a cluster bootstrap).

    Examples with the same question, or with the same program as their gold answer, say little more
    than one of them. `groups` is int [N], equal for examples of one group; with None the sample
    stays as it is.
    """
    if groups is None or len(np.unique(groups)) == len(groups):
        return sample
    _, group = np.unique(groups, return_inverse=True)
    # the last column is the size of a group, because resamples differ in their number of examples
    columns = np.column_stack([sample.values, np.ones(len(group))])
    sums = np.zeros((group.max() + 1, columns.shape[1]))
    np.add.at(sums, group, columns)
    return Sample(sums, lambda sums, _: sample.statistic(sums[..., :-1], sums[..., -1]))


def paired(ours: Sample, theirs: Sample) -> Sample:
    """Return the difference of two statistics on the same N examples as a sample.

    If both have the same number of seeds, these are paired too; else the seeds of the one with
    fewer are averaged.
    """
    cut = ours.values.shape[1]

    def difference(sums: np.ndarray, n: int | np.ndarray) -> np.ndarray:
        higher = ours.statistic(sums[..., :cut], n)
        lower = theirs.statistic(sums[..., cut:], n)
        # the last axis is of seeds; one of length 1 is broadcast
        lengths = {np.shape(values)[-1] for values in (higher, lower) if np.ndim(values)}
        unpaired = len(lengths - {1}) > 1
        if unpaired:
            if lower.shape[-1] < higher.shape[-1]:
                lower = lower.mean(axis=-1, keepdims=True)
            else:
                higher = higher.mean(axis=-1, keepdims=True)
        return higher - lower

    return Sample(np.concatenate([ours.values, theirs.values], axis=1), difference)
