"""The verdict of the final rows: scores with intervals, certain differences, and the
recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ceil_jax.metrics.bootstrap import (
    RESAMPLES,
    Interval,
    Sample,
    bootstrap_interval,
    by_group,
    metric_interval,
    paired,
)
from ceil_jax.tuning.paired import chance, holm

DOUBT = 0.05
"""Probability that any difference is called certain although there is none."""

FEWEST_ROWS = 20
"""The fewest rows to race on, and to judge by: with 20, a difference of 30 points can just be told
from noise."""


class PairedTest(NamedTuple):
    """Two finalists compared on the same rows."""

    better: int
    """The number of the one with the higher score."""
    worse: int
    interval: Interval
    """The difference with its 95 % bootstrap interval."""
    p: float
    """The two-sided p-value, adjusted for the number of comparisons (Holm)."""

    @property
    def certain(self) -> bool:
        """Whether the difference holds with 95 % confidence, jointly with all others called
        certain."""
        return self.p <= DOUBT


class Verdict(NamedTuple):
    """The finalists' scores on the final rows, and the recommendation."""

    scores: tuple[Interval, ...]
    """The metric of each, with its 95 % interval."""
    differences: tuple[PairedTest, ...]
    recommended: int
    """The number of the cheapest finalist that is not certainly worse than another and whose score
    is at most `tolerance` below the winner's."""

    def certainly_better(self, one: int, other: int) -> bool:
        """Return whether one finalist is certainly better than another."""
        return any((d.better, d.worse) == (one, other) and d.certain for d in self.differences)


def judge(
    samples: Sequence[Sample],
    costs: Sequence[float],
    tolerance: float = 0.02,
    groups: np.ndarray | None = None,
    *,
    resamples: int = RESAMPLES,
) -> Verdict:
    """Compare finalists on rows that were not used to choose anything.

    Args:
        samples: of each finalist, at least one, the same rows and their metric, from 0 to 1; the
            winner of the race stands first.
        costs: what a query costs with each finalist: the mean LM tokens of its prompts, or money.
        tolerance: how far below the winner's score, in units of the metric, a cheaper finalist may
            be and still be recommended. A certainly worse one never is.
        groups: int [N], equal for rows that say the same, such as those with one program as their
            answer: they are resampled and swapped together.
        resamples: bootstrap resamples of an interval.
    """
    scores = tuple(metric_interval(sample, groups, resamples=resamples) for sample in samples)
    grouped = [by_group(sample, groups) for sample in samples]
    pairs, p_values = [], []
    for one, other in combinations(range(len(samples)), 2):
        better, worse = (one, other) if scores[one].mean >= scores[other].mean else (other, one)
        both = grouped[better], grouped[worse]
        pairs.append((better, worse, bootstrap_interval(*paired(*both), resamples=resamples)))
        p_values.append(min(1.0, 2 * chance(*both)))
    differences = tuple(PairedTest(*pair, p) for pair, p in zip(pairs, holm(p_values), strict=True))
    losing = {difference.worse for difference in differences if difference.certain}
    standing = [i for i in range(len(samples)) if i not in losing]
    close = [i for i in standing if scores[0].mean - scores[i].mean <= tolerance + 1e-12]
    recommended = min(close or standing, key=lambda i: (costs[i], i))
    return Verdict(scores, differences, recommended)
