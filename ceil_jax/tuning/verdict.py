"""The verdict: a comparison of the finalists on the final rows.

It has scores with intervals, significant differences, and the recommendation.
"""

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
"""The largest probability that any difference is called significant although there is none."""

FEWEST_ROWS = 20
"""The smallest number of rows of a race and of a verdict: with 20, a difference of 30 points can
just be told from noise."""


class PairedTest(NamedTuple):
    """Two finalists compared on the same rows."""

    better: int
    """The number of the finalist with the higher score."""
    worse: int
    interval: Interval
    """The difference with its 95 % bootstrap interval."""
    p: float
    """The two-sided p-value, adjusted for the number of comparisons (Holm)."""

    @property
    def significant(self) -> bool:
        """True if the difference is significant.

        With 95 % confidence, all differences that are called significant are real.
        """
        return self.p <= DOUBT


class Verdict(NamedTuple):
    """The finalists' scores on the final rows, and the recommendation."""

    scores: tuple[Interval, ...]
    """The metric of each finalist, with its 95 % interval."""
    differences: tuple[PairedTest, ...]
    losses: tuple[tuple[Loss, ...], ...]
    """losses[i][j] is what finalist i may lose against finalist j, by all rows of the race and of
    the end that both have answered."""
    reference: int
    """The number of the finalist that the others are compared with: the winner of the race or, if
    that is significantly worse than another, the best finalist that is not."""
    recommended: int
    """The number of the cheapest finalist that is not significantly worse than another and whose
    expected loss against the reference is at most `tolerance`; else the reference."""

    def significantly_better(self, better: int, worse: int) -> bool:
        """Return whether the first finalist is significantly better than the second."""
        return any(
            test.significant and test.better == better and test.worse == worse
            for test in self.differences
        )

    def significantly_worse(self, finalist: int) -> bool:
        """Return whether a finalist is significantly worse than any other."""
        return any(test.significant and test.worse == finalist for test in self.differences)


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

    Scores and differences are of these rows alone. Whether a cheaper finalist does as well is
    judged by all rows that it and the winner have answered, those of the race included. The winner
    was chosen by the race and looks too good on its rows, so that mistakes favour the more
    expensive prompt.

    Args:
        samples: for each of at least one finalist, the same rows and their metric, from 0 to 1; the
            winner of the race first.
        costs: what a query costs with each finalist: the mean LM tokens of its prompts, or money.
        tolerance: the largest expected loss, in units of the metric, with which a cheaper finalist
            is recommended (`tuning.loss`). A finalist that is significantly worse is never
            recommended.
        groups: int [N], equal for rows that say the same, such as rows with one program as their
            answer. These are resampled and swapped together.
        raced: for each finalist, float [m], the metric of the first m rows of the race; m differs
            between finalists. By default there was no race.
        raced_groups: int [M], the groups of all rows of the race, numbered as in `groups`; needed
            if there are groups and a race.
        resamples: how many bootstrap resamples an interval is made of.
    """
    scores = tuple(metric_interval(sample, groups, resamples=resamples) for sample in samples)
    grouped = [by_group(sample, groups) for sample in samples]
    tests = []
    for first, second in combinations(range(len(samples)), 2):
        pair = (first, second)
        better = max(pair, key=lambda i: scores[i].mean)
        [worse] = {*pair} - {better}
        difference = paired(grouped[better], grouped[worse])
        interval = bootstrap_interval(*difference, resamples=resamples)
        p = min(1.0, 2 * chance(grouped[better], grouped[worse]))
        tests.append(PairedTest(better, worse, interval, p))
    adjusted = holm([test.p for test in tests])
    differences = tuple(test._replace(p=p) for test, p in zip(tests, adjusted, strict=True))
    final = [np.asarray(sample.statistic(sample.values, 1), np.float64) for sample in samples]
    raced = raced or [np.zeros(0) for _ in samples]
    losses = tuple(
        tuple(
            _loss(final[j] - final[i], raced[i], raced[j], groups, raced_groups)
            for j in range(len(samples))
        )
        for i in range(len(samples))
    )
    significantly_worse = {test.worse for test in differences if test.significant}
    unbeaten = [i for i in range(len(samples)) if i not in significantly_worse]
    reference = 0 if 0 in unbeaten else max(unbeaten, key=lambda i: (scores[i].mean, -costs[i]))
    close = [i for i in unbeaten if losses[i][reference].expected <= tolerance]
    recommended = min([reference, *close], key=lambda i: (costs[i], i))
    return Verdict(scores, differences, losses, reference, recommended)


def _loss(
    ahead: np.ndarray,
    raced: np.ndarray,
    other_raced: np.ndarray,
    groups: np.ndarray | None,
    raced_groups: np.ndarray | None,
) -> Loss:
    """Return the loss of a finalist against another that is ahead by `ahead` [N] on the final rows.

    `raced` and `other_raced` are their scores in the race.
    """
    both = min(len(raced), len(other_raced))
    ahead = np.concatenate([other_raced[:both] - raced[:both], ahead])
    if groups is None:
        return loss_of(ahead)
    earlier = np.zeros(0, int) if raced_groups is None else raced_groups[:both]
    return loss_of(ahead, np.concatenate([earlier, groups]))
