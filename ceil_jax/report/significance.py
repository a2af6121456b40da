"""The significant differences between methods, and how many queries would settle others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.report.table import signed

_NAMED = 4
"""The maximum number of differences that a sentence names; further ones are only counted."""


@dataclass(frozen=True)
class Difference:
    """The difference between two methods on the same queries."""

    better: str
    worse: str
    interval: Interval
    """The difference in percentage points, with its 95 % interval."""

    @property
    def significant(self) -> bool:
        """True if the interval of the difference excludes 0."""
        return self.interval.excludes_zero

    def upwards(self) -> Difference:
        """Return the same difference with the higher method first."""
        mean, low, high = self.interval
        if mean >= 0:
            return self
        return Difference(self.worse, self.better, Interval(-mean, -high, -low))

    def needed(self, queries: int) -> int | None:
        """Return how many queries would make the difference significant if it stays as large.

        They are n (half-width / difference)².

        The number is rounded to two digits. It is None if there is no difference, or if it is above
        a million.

        Args:
            queries: n, the number of queries on which the difference was measured.
        """
        mean, low, high = self.interval
        if mean == 0:
            return None
        count = queries * ((high - low) / 2 / abs(mean)) ** 2
        return None if count > 1e6 else int(float(f"{count:.1e}"))

    def __str__(self) -> str:
        return f"{self.better} − {self.worse}: {signed(self.interval)} points"


def significance(
    differences: Iterable[Difference], queries: int, others: Sequence[Difference] = ()
) -> str:
    """Return sentences about differences: the significant ones first, then the others.

    Each group begins with the largest difference. "" if nothing is compared.

    Args:
        differences: the pairs of interest: the best row against each other row, and each row
            against its baselines. Significant ones are named with their intervals, others with the
            number of queries that would settle them.
        queries: the number of queries on which they were measured.
        others: the significant differences of all other pairs, which are named without intervals.
    """
    pairs = sorted(
        (difference.upwards() for difference in differences),
        key=lambda difference: -difference.interval.mean,
    )
    if not pairs:
        return ""
    significant = [
        f"{difference.better} − {difference.worse} {signed(difference.interval)}"
        for difference in pairs
        if difference.significant
    ]
    insignificant = [
        _with_queries_needed(difference, queries)
        for difference in pairs
        if not difference.significant
    ]
    sentences = []
    if significant:
        listed = ", ".join(_first(significant))
        sentences.append(f"Significant (the pair's own 95 % interval excludes zero): {listed}.")
    if others:
        beginning = "Also significant" if significant else "Significant"
        sentences.append(f"{beginning}: {'; '.join(_first(_without_numbers(others)))}.")
    if not sentences:
        sentences.append("No difference is significant.")
    if insignificant:
        sentences.append(f"Not significant: {', '.join(_first(insignificant))}.")
    return " ".join(sentences)


def _without_numbers(differences: Sequence[Difference]) -> list[str]:
    """Return a text for each row that is better than others, with the rows that it outperforms.

    `free over random and BM25`.
    """
    worse: dict[str, list[str]] = {}
    for difference in map(Difference.upwards, differences):
        worse.setdefault(difference.better, []).append(difference.worse)
    return [f"{better} over {_and(names)}" for better, names in worse.items()]


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _with_queries_needed(difference: Difference, queries: int) -> str:
    """A difference that is not significant, with the number of queries that would settle it."""
    pair = f"{difference.better} − {difference.worse}"
    if difference.interval.mean == 0:
        return f"{pair} (equal)"
    needed = difference.needed(queries)
    number = "more than a million" if needed is None else f"about {needed:,}"
    return f"{pair} {difference.interval.mean:+.1f} ({number} queries would settle it)"


def _first(texts: Sequence[str]) -> list[str]:
    """The first texts of a list, and how many more there are."""
    more = len(texts) - _NAMED
    return [*texts[:_NAMED], f"and {more} more"] if more > 0 else list(texts)
