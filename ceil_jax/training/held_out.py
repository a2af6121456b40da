"""The split of a training's queries into trained-on and held-out ones.

Weights are compared on the held-out ones.
"""

from __future__ import annotations

import numpy as np

from ceil_jax.errors import UserError

_MOST_OF_A_QUARTER = 100
"""The maximum number of held-out queries if a quarter of all queries is held out."""

_MOST_OF_A_TENTH = 1000
"""The maximum number of held-out queries if a tenth of all queries is held out."""

_SPLIT = 1
"""The part of the random key, next to the seed, for the draw of held-out queries."""


def held_out_count(count: int) -> int:
    """Return how many of `count` queries are held out: a quarter, at most 100; or a tenth, at most
    1,000, if that is more."""
    a_quarter = min(count // 4, _MOST_OF_A_QUARTER)
    a_tenth = min(count // 10, _MOST_OF_A_TENTH)
    return max(1, a_quarter, a_tenth)


def split_held_out(
    count: int, seed: int, used_by_start: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Split `count` queries into training queries and held-out ones, and return their numbers.

    Queries that the starting weights were trained on (`used_by_start`, bool [count]) are not held
    out, unless all were.

    Raises:
        UserError: fewer than two queries.
    """
    if count < 2:
        raise UserError(f"training needs at least 2 scored instances, got {count}")
    order = np.random.default_rng([seed, _SPLIT]).permutation(count)
    out = held_out_count(count)
    candidates = order
    if used_by_start is not None and not used_by_start.all():
        candidates = order[~used_by_start[order]]
    held_out = np.sort(candidates[:out])
    return np.setdiff1d(order, held_out), held_out
