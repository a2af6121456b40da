"""Differences of methods: which are certain, and how many queries would decide the others."""

from __future__ import annotations

from collections.abc import Iterable
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


def certainty(differences: Iterable[Difference], queries: int) -> str:
    """Return what is certain and what is not on so many queries, the best first; "" where nothing
    is compared.

    Each is certain by its own 95 % interval, which makes no allowance for how many there are.
    """
    found = sorted((one.upwards() for one in differences), key=lambda one: -one.interval.mean)
    sure = [f"{one.better} − {one.worse} {signed(one.interval)}" for one in found if one.certain]
    unsure = [_unsure(one, queries) for one in found if not one.certain]
    if not found:
        return ""
    said = f"Certain (95 %): {_listed(sure)}." if sure else "No difference is certain."
    return f"{said} Not certain: {_listed(unsure)}." if unsure else said


def _unsure(one: Difference, queries: int) -> str:
    if one.interval.mean == 0:
        return f"{one.better} − {one.worse} (equal here)"
    count = one.needed(queries)
    how = "more than a million" if count is None else f"about {count:,}"
    return f"{one.better} − {one.worse} {one.interval.mean:+.1f} ({how} queries would decide it)"


def _listed(parts: list[str]) -> str:
    more = len(parts) - _NAMED
    return ", ".join([*parts[:_NAMED], *([f"and {more} more"] if more > 0 else [])])
