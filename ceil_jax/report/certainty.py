"""Differences of methods: which are certain, and how many queries would decide the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.report.table import signed

_NAMED = 4
"""Differences in a sentence; the others are counted."""


@dataclass(frozen=True)
class Difference:
    """The difference of two methods on the same queries."""

    better: str
    worse: str
    interval: Interval
    """The difference in percentage points, with its 95 % interval."""

    @property
    def certain(self) -> bool:
        """Whether its interval has a width and leaves out 0."""
        _, low, high = self.interval
        return low < high and (low > 0 or high < 0)

    def upwards(self) -> Difference:
        """Return the same difference, the higher method first."""
        mean, low, high = self.interval
        return (
            self if mean >= 0 else Difference(self.worse, self.better, Interval(-mean, -high, -low))
        )

    def needed(self, queries: int) -> int | None:
        """Return how many queries would make it certain if it stayed as large: n (half-width /
        difference)².

        The number has two significant digits; None without a difference, or above a million.

        Args:
            queries: n, on which the difference was measured.
        """
        mean, low, high = self.interval
        if mean == 0:
            return None
        count = queries * ((high - low) / 2 / abs(mean)) ** 2
        return None if count > 1e6 else int(float(f"{count:.1e}"))

    def __str__(self) -> str:
        return f"{self.better} − {self.worse}: {signed(self.interval)} points"


def certainty(
    differences: Iterable[Difference], queries: int, others: Sequence[Difference] = ()
) -> str:
    """Return what is certain and what is not, the best first; "" where nothing is compared.

    Args:
        differences: the pairs that are of interest: the best row against each other, and each
            against its baselines. The certain ones are named with their intervals, and it is said
            how many queries would decide the others.
        queries: how many queries they were measured on.
        others: the certain differences of all other pairs; named without their intervals.
    """
    pairs = sorted(
        (difference.upwards() for difference in differences),
        key=lambda difference: -difference.interval.mean,
    )
    if not pairs:
        return ""
    sure = [
        f"{difference.better} − {difference.worse} {signed(difference.interval)}"
        for difference in pairs
        if difference.certain
    ]
    unsure = [_unsure(difference, queries) for difference in pairs if not difference.certain]
    sentences = []
    if sure:
        sentences.append(f"Certain (95 %, each pair by its own interval): {_listed(sure)}.")
    if others:
        sentences.append(f"{'Also certain' if sure else 'Certain'}: {_over(others)}.")
    if not sentences:
        sentences.append("No difference is certain.")
    if unsure:
        sentences.append(f"Not certain: {_listed(unsure)}.")
    return " ".join(sentences)


def _over(differences: Sequence[Difference]) -> str:
    """Pairs without their numbers, one part for each better row: `free over random and BM25`."""
    worse: dict[str, list[str]] = {}
    for difference in map(Difference.upwards, differences):
        worse.setdefault(difference.better, []).append(difference.worse)
    parts = [f"{better} over {_and(names)}" for better, names in worse.items()]
    more = len(parts) - _NAMED
    return "; ".join([*parts[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _unsure(difference: Difference, queries: int) -> str:
    if difference.interval.mean == 0:
        return f"{difference.better} − {difference.worse} (equal here)"
    count = difference.needed(queries)
    how = "more than a million" if count is None else f"about {count:,}"
    return f"{difference.better} − {difference.worse} {difference.interval.mean:+.1f} ({how} queries would decide it)"


def _listed(parts: list[str]) -> str:
    more = len(parts) - _NAMED
    return ", ".join([*parts[:_NAMED], *([f"and {more} more"] if more > 0 else [])])
