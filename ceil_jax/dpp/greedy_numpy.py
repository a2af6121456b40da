"""Greedy MAP in numpy, one step at a time, for a single query that must not wait for a compiler.

This is the recursion of `greedy` as a generator: the caller takes items until its token budget is
used up, and may restrict the allowed items at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.dpp.greedy import CLOSED_BELOW
from ceil_jax.dpp.kernel import bounded_trade_off, rescaled, similarity


class Pick(NamedTuple):
    """One chosen item."""

    item: int
    gain: float
    """The gain in log det L'_S when the item was chosen."""
    residual: float
    """d_i² of the item given those chosen before, from 1 down to 0."""


def greedy_steps(
    features: Float[np.ndarray, "n d"],
    relevance: Float[np.ndarray, " n"],
    trade_off: float,
    groups: Int[np.ndarray, " n"] | None = None,
    fits: Callable[[int], bool] = lambda item: True,
    waits: Callable[[int], bool] = lambda item: False,
    origin: float = 0.0,
) -> Iterator[Pick]:
    """Yield the items of greedy MAP one by one.

    They are those of `greedy_map_from_features(features, relevance − max, n, trade_off)`.

    There are fewer than n steps if the remaining items do not fit or are linear combinations of
    chosen ones.

    Args:
        features: rows of length 1, or of zeros; S = (1 + F Fᵀ) / 2.
        relevance: r on the scale of S; its maximum is subtracted.
        trade_off: λ, above 0.
        groups: a group number from 0 for each item. Each step chooses among the groups with open
            items that have been chosen from least often. By default all items are in one group.
        fits: called with the item that would be chosen; if it returns False, the item is dropped
            for good.
        waits: called likewise; if it returns True, the item waits until its group has no other open
            items. Waiting items are then chosen by gain.
        origin: the cosine that counts as 0 (`kernel.rescaled`): S = (1 + rescaled(F Fᵀ)) / 2.

    >>> import numpy as np
    >>> features = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], np.float32)
    >>> [step.item for step in greedy_steps(features, np.array([0.9, 0.9, 0.5]), trade_off=0.1)]
    [0, 2]
    """
    n = len(features)
    epsilon = CLOSED_BELOW * np.finfo(np.float32).eps
    groups = np.zeros(n, np.intp) if groups is None else groups
    chosen_from = np.zeros(groups.max(initial=0) + 1, np.intp)
    log_quality = (relevance - relevance.max(initial=-np.inf)).astype(np.float64)
    log_quality = log_quality / bounded_trade_off(trade_off)
    is_empty = np.asarray(~features.any(axis=1))
    # a vector of zeros is to every vector as unrelated texts are, itself included
    diagonal = np.where(is_empty, similarity(0.0), 1.0)
    log_quality += np.log(diagonal)
    root = np.sqrt(diagonal)
    residual = np.ones(n)  # d_i² of the open items, 1 for closed ones
    # row t of the Cholesky factor is written when the t-th item is chosen
    factor = np.zeros((n, n))
    open_ = np.ones(n, bool)
    waiting = np.zeros(n, bool)
    t = 0
    while open_.any():
        allowed = open_ & (chosen_from[groups] == chosen_from[groups[open_]].min())
        if (allowed & ~waiting).any():
            allowed &= ~waiting
        candidates = np.flatnonzero(allowed)
        gains = log_quality[candidates] + np.log(residual[candidates])
        best = int(candidates[np.argmax(gains)])
        if not fits(best):
            open_[best] = False
            residual[best] = 1
            continue
        if not waiting[best] and waits(best):
            waiting[best] = True
            continue
        yield Pick(best, float(gains.max()), float(residual[best]))
        chosen_from[groups[best]] += 1
        cosines = np.where(is_empty | is_empty[best], origin, features @ features[best])
        row = similarity(rescaled(cosines, origin)) / root / root[best]
        factor[t] = (row - factor[:t, best] @ factor[:t]) / np.sqrt(residual[best])
        residual -= factor[t] ** 2
        open_ &= residual > epsilon
        open_[best] = False
        residual[~open_] = 1
        t += 1
