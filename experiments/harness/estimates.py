"""Estimates with 95 % intervals for tables: means over tasks that share rows, and a mark for
intervals that end too near to zero to call.

Two datasets may share rows: most sentences of SST-5 are in the film reviews too, and the splits of
GeoQuery are of the same questions. Their resamples are taken to move together, so that the interval
of a mean is the widest that any sharing could make it.

An end of an interval has an error of its own, because the number of resamples is finite. An end
that lies within this error of zero is resampled ten times as often, and if it still does, the
interval is printed as touching zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ceil_jax.metrics.bootstrap import RESAMPLES, Interval, Sample, resampled_values
from ceil_jax.report.table import Number

SHARING = (
    {"sst5", "movie_reviews"},
    {"geoquery", "geoquery.template", "geoquery.tmcd", "geoquery.length"},
)
"""Groups of tasks that share rows of data."""

ENDS = (0.025, 0.975)
_Z = 1.959964
"""The 97.5 % point of the normal distribution."""


class Estimate(NamedTuple):
    """A value in percent, or a difference in points, with its 95 % interval."""

    interval: Interval
    touches_zero: bool = False
    """Whether an end of the interval is zero up to its Monte Carlo error."""

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes zero, by more than the Monte Carlo error of its ends."""
        return self.interval.excludes_zero and not self.touches_zero

    def difference(self) -> Difference:
        """Return the estimate as a number with a sign."""
        return Difference(
            self.interval.mean,
            signed=True,
            interval=self.interval,
            touches_zero=self.touches_zero,
        )


@dataclass(frozen=True)
class Difference(Number):
    """A difference: `+1.5 (-0.5 to +3.5)`, or `+1.5 (+0.0 to +3.5, touches zero)`."""

    touches_zero: bool = False

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text[:-1]}, touches zero)" if self.touches_zero else text


def estimate(samples: Mapping[str, Sample]) -> Estimate:
    """Return the mean over tasks, in percent.

    All tasks have the same weight. Tasks that share no rows are resampled apart.

    Args:
        samples: task → its sample; at least one.
    """
    few = _estimate(samples, RESAMPLES)
    return _estimate(samples, 10 * RESAMPLES) if few.touches_zero else few


def _estimate(samples: Mapping[str, Sample], resamples: int) -> Estimate:
    values = []
    clusters: dict[str, list[np.ndarray]] = {}
    for seed, (task, sample) in enumerate(samples.items()):
        value, drawn = resampled_values(*sample, resamples, seed)
        values.append(value)
        # a task whose values are all equal has a single resample
        clusters.setdefault(_cluster(task), []).append(np.broadcast_to(drawn, resamples))
    sums = [_moving_together(members) for members in clusters.values()]
    drawn = 100 * np.sum(sums, axis=0) / len(values)
    low, high = np.percentile(drawn, [100 * end for end in ENDS])
    interval = Interval(100 * float(np.mean(values)), float(low), float(high))
    return Estimate(interval, low < high and _touches_zero(drawn))


def _cluster(task: str) -> str:
    """Return the name for the group of tasks that share rows with this one; its own name if none does."""
    return next((" ".join(sorted(tasks)) for tasks in SHARING if task in tasks), task)


def _moving_together(members: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum of the resamples of several tasks, float [resamples], in which the lowest
    value of one task is added to the lowest of the others."""
    ranks = np.argsort(np.argsort(members[0], kind="stable"), kind="stable")
    return members[0] + sum(np.sort(drawn)[ranks] for drawn in members[1:])


def _touches_zero(drawn: np.ndarray) -> bool:
    """Return whether zero lies within the 95 % interval of one of the two percentiles, by the
    normal approximation of their ranks."""
    for end in ENDS:
        error = _Z * np.sqrt(end * (1 - end) / len(drawn))
        low, high = np.quantile(drawn, [end - error, end + error])
        if low <= 0 <= high:
            return True
    return False
