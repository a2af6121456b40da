"""Rows for three uses: the bank, the rows that candidates race on, and the final rows."""

from __future__ import annotations

from typing import NamedTuple

from ceil_jax.errors import UserError

FEWEST = 20
"""The fewest rows of each kind: with 20 of each, a difference of 30 points can just be told from noise."""

MOST_TUNING, MOST_FINAL = 300, 500
"""Default upper limits of both kinds of rows."""

SHARE = 0.2
"""Share of the rows to race on, and share of the final rows."""


class Sizes(NamedTuple):
    """Number of rows of each kind."""

    bank: int
    tuning: int
    final: int


def sizes(
    rows: int, tuning: int | None = None, final: int | None = None, *, apart: int = 0, what: str = "the data"
) -> Sizes:
    """Return the number of rows of each kind: by default a fifth to race on, a fifth for the end, the rest the bank.

    Args:
        rows: the number of distinct rows.
        tuning: rows to race on; by default a fifth, at least 20 and at most 300.
        final: rows for the end; by default a fifth, at least 20 and at most 500.
        apart: the number of final rows given separately; if positive, none are taken from `rows`.
        what: the name of the data in a message.

    Raises:
        UserError: too few rows.
    """
    if tuning is None:
        tuning = min(max(round(SHARE * rows), FEWEST), MOST_TUNING)
    if apart:
        final, taken = min(apart, final or MOST_FINAL), 0
    else:
        final = taken = min(max(round(SHARE * rows), FEWEST), MOST_FINAL) if final is None else final
    bank = rows - tuning - taken
    found = Sizes(bank, tuning, final)
    if min(found) < FEWEST:
        raise UserError(
            f"{what}: {rows + apart:,} rows make {max(bank, 0):,} for the bank, {tuning:,} to tune on and "
            f"{final:,} for the end; at least {FEWEST} of each are needed: give {(5 if apart else 3) * FEWEST} "
            "different rows or more, some hundreds for certain answers"
        )
    return found
