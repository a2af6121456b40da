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
from ceil_jax.tuning.loss import Loss, loss_of
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
    losses: tuple[tuple[Loss, ...], ...]
    """losses[i][j]: what taking finalist i in place of finalist j may lose, by the rows of the race
    and the final ones that both have answered."""
    reference: int
    """The number of the finalist that the others are measured against: the winner of the race, or,
    where it is certainly worse than another, the best that is not."""
    recommended: int
    """The number of the cheapest finalist that is not certainly worse than another and whose
    expected loss against the reference is at most `tolerance`; else the reference."""

    def certainly_better(self, one: int, other: int) -> bool:
        """Return whether one finalist is certainly better than another."""
        return any((d.better, d.worse) == (one, other) and d.certain for d in self.differences)

    def certainly_worse(self, finalist: int) -> bool:
        """Return whether a finalist is certainly worse than any other."""
        return any(d.worse == finalist and d.certain for d in self.differences)


def judge(
    samples: Sequence[Sample],
    costs: Sequence[float],
    tolerance: float = 0.02,
    groups: np.ndarray | None = None,
    *,
    raced: Sequence[np.ndarray] = (),
    raced_groups: np.ndarray | None = None,
    resamples: int = RESAMPLES,
) -> Verdict:
    """Compare finalists on rows that were not used to choose anything.

    Scores and differences are those of these rows. Whether a cheaper finalist does as well is judged
    by more: by all rows that it and the winner have answered, those of the race included. The winner
    looks too good on these, because it was chosen by them; so this errs on the dearer side.

    Args:
        samples: of each finalist, at least one, the same rows and their metric, from 0 to 1; the
            winner of the race stands first.
        costs: what a query costs with each finalist: the mean LM tokens of its prompts, or money.
        tolerance: the largest expected loss, in units of the metric, with which a cheaper finalist
            is recommended (`tuning.loss`). A certainly worse one never is.
        groups: int [N], equal for rows that say the same, such as those with one program as their
            answer: they are resampled and swapped together.
        raced: of each finalist, float [m], the metric of the first m rows of the race, m of its own;
            by default there was no race.
        raced_groups: int [M], as `groups`, of all rows of the race, with the same numbers; needed
            where there are groups and a race.
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
    final = [np.asarray(sample.statistic(sample.values, 1), np.float64) for sample in samples]
    raced = raced or [np.zeros(0) for _ in samples]
    losses = tuple(
        tuple(
            _loss(final[j] - final[i], raced[i], raced[j], groups, raced_groups)
            for j in range(len(samples))
        )
        for i in range(len(samples))
    )
    losing = {difference.worse for difference in differences if difference.certain}
    standing = [i for i in range(len(samples)) if i not in losing]
    reference = 0 if 0 in standing else max(standing, key=lambda i: (scores[i].mean, -costs[i]))
    close = [i for i in standing if losses[i][reference].expected <= tolerance]
    recommended = min([reference, *close], key=lambda i: (costs[i], i))
    return Verdict(scores, differences, losses, reference, recommended)


def _loss(
    ahead: np.ndarray,
    raced: np.ndarray,
    other_raced: np.ndarray,
    groups: np.ndarray | None,
    raced_groups: np.ndarray | None,
) -> Loss:
    """What a finalist may lose that is behind another by `ahead` [N] on the final rows, and has
    scored `raced` in the race."""
    both = min(len(raced), len(other_raced))
    ahead = np.concatenate([other_raced[:both] - raced[:both], ahead])
    if groups is None:
        return loss_of(ahead)
    earlier = np.zeros(0, int) if raced_groups is None else raced_groups[:both]
    return loss_of(ahead, np.concatenate([earlier, groups]))
