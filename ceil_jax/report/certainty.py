"""The sentences below a table: which differences are certain, and how many queries would decide the others."""

from __future__ import annotations

from collections.abc import Iterable

from ceil_jax.report.runs import Difference
from ceil_jax.report.table import signed

_NAMED = 4
"""Differences in a sentence; the others are counted."""

_MOST = 1_000_000
"""Queries beyond which no number is given."""


def needed(difference: Difference, queries: int) -> int | None:
    """Return how many queries would make a difference certain if it stayed as large: n (half-width / difference)².

    Args:
        difference: measured on the queries.
        queries: n.

    Returns:
        The number with two digits; None without a difference, or above a million.
    """
    mean, low, high = difference.interval
    if mean == 0:
        return None
    count = queries * ((high - low) / 2 / abs(mean)) ** 2
    return None if count > _MOST else int(float(f"{count:.1e}"))


def certainty(differences: Iterable[Difference], queries: int) -> str:
    """Return what is certain and what is not, the best first; "" where nothing is compared.

    Args:
        differences: each is certain by its own 95 % interval, which makes no allowance for how many there are.
        queries: the number of queries that they were measured on.
    """
    found = sorted((one.upwards() for one in differences), key=lambda one: -one.interval.mean)
    sure = [f"{one.better} − {one.worse} {signed(one.interval)}" for one in found if one.certain]
    open_ones = [_open(one, queries) for one in found if not one.certain]
    if not found:
        return ""
    said = f"Certain (95 %): {_listed(sure)}." if sure else "No difference is certain."
    return f"{said} Not certain: {_listed(open_ones)}." if open_ones else said


def _open(one: Difference, queries: int) -> str:
    if one.interval.mean == 0:
        return f"{one.better} − {one.worse} (equal here)"
    count = needed(one, queries)
    how = "more than a million" if count is None else f"about {count:,}"
    return f"{one.better} − {one.worse} {one.interval.mean:+.1f} ({how} queries would decide it)"


def _listed(parts: list[str]) -> str:
    more = len(parts) - _NAMED
    return ", ".join([*parts[:_NAMED], *([f"and {more} more"] if more > 0 else [])])
