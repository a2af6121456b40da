"""How sure a number is: bootstrap intervals over examples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """A mean and its 95 % percentile-bootstrap interval."""

    mean: float
    low: float
    high: float


def bootstrap_interval(values: np.ndarray, resamples: int = 10_000, seed: int = 0) -> Interval:
    """The mean of per-example values [N] with its interval over resampled examples.

    For a paired comparison give the differences of two methods on the same examples.
    """
    from scipy.stats import bootstrap

    values = np.asarray(values, np.float64)
    if values.size == 0:
        raise ValueError("no values to bootstrap")
    mean = float(values.mean())
    if np.ptp(values) == 0:
        return Interval(mean, mean, mean)
    found = bootstrap(
        (values,),
        np.mean,
        n_resamples=resamples,
        # bounds the memory of the resampled matrix to about 100 MB
        batch=max(1, 12_000_000 // values.size),
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return Interval(mean, float(found.confidence_interval.low), float(found.confidence_interval.high))
