"""The expected loss of taking a cheaper prompt.

By how much the more expensive one may be better, weighted by how probable that is.

A difference of 1 point on 24 rows says nothing, on 2,000 rows a lot. Both are judged by one number:
let δ be the points by which the more expensive prompt is truly better. Given the rows that both
have answered, δ is taken to be normal around the measured difference. The expected loss is E[max(δ,
0)]. With many rows it is the measured difference, or 0 where the cheaper prompt is better; with few
rows it is large even if both have the same score. Tests of web pages end by the same number
(Stucchio, Bayesian A/B testing at VWO, 2015).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

_NORMAL = NormalDist()


class Loss(NamedTuple):
    """The possible loss of one prompt against another, in units of the metric."""

    ahead: float
    """The difference by which the other prompt is better on the rows that both have answered."""
    error: float
    """The standard error of `ahead`."""
    rows: int
    """The number of rows that both have answered."""

    @property
    def expected(self) -> float:
        """E[max(δ, 0)] of δ ~ N(ahead, error²).

        >>> round(Loss(ahead=0.0, error=0.05, rows=100).expected, 3)  # 0.4 standard errors
        0.02
        >>> round(Loss(ahead=0.04, error=0.001, rows=9000).expected, 3)
        0.04
        """
        ratio = self.ahead / self.error
        return self.error * (_NORMAL.pdf(ratio) + ratio * _NORMAL.cdf(ratio))

    def rows_for(self, tolerance: float) -> int:
        """Return the number of rows that reduce the expected loss to a tolerance, rounded to two
        digits.

        The two prompts are taken to be equally good.

        >>> Loss(ahead=0.0, error=0.05, rows=100).rows_for(0.01)  # half the loss: four times as many
        400
        """
        rows = self.rows * (self.error * _NORMAL.pdf(0.0) / tolerance) ** 2
        step = 10 ** max(0, math.floor(math.log10(max(rows, 1))) - 1)
        return step * math.ceil(rows / step)


def loss_of(ahead: np.ndarray, groups: np.ndarray | None = None) -> Loss:
    """Return the loss of one prompt against another, from their scores on the same rows.

    Two rows are added, so that rows that are all equal do not look significant (Agresti and Min,
    Statistics in Medicine, 2005): half a row on which only one prompt is right, half a row on which
    only the other one is, and one on which both agree.

    Args:
        ahead: float [N], by how much the other prompt is better on each row that both have
            answered.
        groups: int [N], equal for rows that count as one because they say the same.
    """
    ahead = np.asarray(ahead, np.float64)
    count = len(ahead) + 2
    mean = ahead.sum() / count
    residuals = ahead - mean
    if groups is not None:
        _, group = np.unique(groups, return_inverse=True)
        residuals = np.bincount(group, weights=residuals)
    # the added rows differ from the mean by 1 − mean, 1 + mean (half a row each) and mean
    added = 1 + 2 * mean**2
    variance = (float(np.square(residuals).sum()) + added) / count**2
    return Loss(float(mean), math.sqrt(variance), len(ahead))
