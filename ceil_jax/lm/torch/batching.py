"""Which rows to read together: near equal lengths, under a budget of tokens, so that little is padding."""

from __future__ import annotations

from collections.abc import Sequence


def by_token_budget(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of the rows, in batches whose number of rows × longest row is at most `budget`.

    Longest first, so that a batch that does not fit in memory fails at once and not after an hour; rows of
    equal length keep their order. A row longer than the budget is a batch of its own. Rows of length 0 count
    as 1.
    """
    batches: list[list[int]] = []
    longest = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or (len(batches[-1]) + 1) * longest > budget:
            batches.append([])
            longest = max(lengths[row], 1)
        batches[-1].append(row)
    return batches
