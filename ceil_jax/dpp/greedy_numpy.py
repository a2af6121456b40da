"""Greedy MAP a step at a time, on the host: for one query whose answer must not wait for a compiler.

The recursion of `greedy.py`, as a generator: the caller takes items while its token budget lasts, and
which items are allowed may change from step to step. A shortlist of a hundred is too little work for a
device, and in an application its size and k change with every request: each new shape would compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ceil_jax.dpp.greedy import CLOSED_BELOW


class Step(NamedTuple):
    """One item and what it added to log det L'_S when it was chosen."""

    item: int
    gain: float


def greedy_steps(
    features: np.ndarray,
    relevance: np.ndarray,
    trade_off: float,
    groups: np.ndarray | None = None,
    fits: Callable[[int], bool] = lambda item: True,
) -> Iterator[Step]:
    """The items of `greedy_map_from_features(features, relevance − max, n, trade_off)`, one by one.

    With groups (int [n], 0 and up), each step chooses among the items whose group was chosen least often so
    far, of the groups with open items left: in every prefix the groups' counts differ by at most one, but
    for those that have run out.

    Args:
        features: float32 [n, d], unit rows; S = (1 + F Fᵀ)/2.
        relevance: [n], on the scale of S; its maximum is subtracted.
        fits: asked of an item whose turn it is; one that does not fit is passed over for good.

    Yields:
        At most n steps; fewer where the rest do not fit or are combinations of chosen items (duplicates, above all).
    """
    n = len(features)
    epsilon = CLOSED_BELOW * np.finfo(np.float32).eps
    groups = np.zeros(n, np.intp) if groups is None else groups
    taken = np.zeros(groups.max(initial=0) + 1, np.intp)
    log_quality = (relevance - relevance.max(initial=-np.inf)).astype(np.float64) / trade_off
    residual = np.ones(n)  # d_i² of the open items, 1 for the others
    factor = np.zeros((n, n))  # row t: the Cholesky factor's, written when the t-th item is chosen
    open_ = np.ones(n, bool)
    t = 0
    while open_.any():
        allowed = open_ & (taken[groups] == taken[groups[open_]].min())
        gain = np.where(allowed, log_quality + np.log(residual), -np.inf)
        best = int(np.argmax(gain))
        if not fits(best):
            open_[best], residual[best] = False, 1
            continue
        yield Step(best, float(gain[best]))
        taken[groups[best]] += 1
        similarity = (1 + features @ features[best]) / 2
        factor[t] = (similarity - factor[:t, best] @ factor[:t]) / np.sqrt(residual[best])
        residual -= factor[t] ** 2
        open_ &= residual > epsilon
        open_[best] = False
        residual[~open_] = 1
        t += 1
