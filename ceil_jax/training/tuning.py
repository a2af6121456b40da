"""The trade-off λ of DPP-MAP, chosen on training queries by how probable the LM finds the right answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ceil_jax.lm.prompts import Fit
from ceil_jax.training.candidates import Proposal

TRADE_OFFS = (0.001, 0.005, 0.01, 0.05, 0.1)
"""The papers' grid for λ is {0.01, 0.05, 0.1}; with few examples a prompt the best can lie far below it."""

TUNING_QUERIES = 64
"""Training queries whose answers are scored with the MAP set of every λ."""


class Limit(NamedTuple):
    """What the prompts take of their shortlists."""

    fit: Fit
    """How a set is kept within it: see `PromptBuilder.kept`, and `budgeted.py`."""
    costs: np.ndarray
    """int [Q, n]: tokens of each example."""
    left: np.ndarray
    """int [Q]: tokens there are."""

    def first_that_fit(self, places: np.ndarray) -> np.ndarray:
        """int [Q, k] places in the shortlist, n = none: none in place of those from the first that does not fit."""
        none = self.costs.shape[1]
        costs = np.pad(self.costs, ((0, 0), (0, 1)))
        spent = np.take_along_axis(costs, places, axis=1).cumsum(axis=1)
        return np.where(spent <= self.left[:, None], places, none)


def propose_map(
    query_vectors: np.ndarray,
    items: np.ndarray,
    shortlist: np.ndarray,
    size: int,
    limit: Limit | None = None,
    trade_offs: Sequence[float] = TRADE_OFFS,
) -> Proposal:
    """The greedy MAP set of every λ, for `candidates.score` to score.

    Args:
        query_vectors: float32 [Q, D], unit rows.
        items: float32 [N, D], the bank's, unit rows.
        shortlist: int32 [Q, n], bank positions, nearest first, −1 where there are fewer.
        limit: what the prompts take; without it the sets are whole.

    Returns:
        Subsets int32 [Q, len(trade_offs), size], nearest first.
    """
    from ceil_jax.dpp.budgeted import budgeted_map_shortlists
    from ceil_jax.dpp.greedy import greedy_map_shortlists

    subsets = []
    for trade_off in trade_offs:
        arguments = (query_vectors, items, shortlist)
        if limit is not None and limit.fit == "budget":
            chosen = budgeted_map_shortlists(*arguments, limit.costs, limit.left, size, trade_off).items
        else:
            chosen = greedy_map_shortlists(*arguments, size, trade_off).items
        # bank positions back to places in the shortlist; empty places go last
        none = shortlist.shape[1]
        place = (chosen[:, :, None] == shortlist[:, None, :]).argmax(axis=2)
        place = np.where(chosen < 0, none, place)
        if limit is not None and limit.fit == "greedy":
            place = limit.first_that_fit(place)
        place = np.sort(place, axis=1)
        if limit is not None and limit.fit == "similarity":
            place = limit.first_that_fit(place)
        subsets.append(np.where(place == none, -1, place))
    return Proposal(shortlist, np.stack(subsets, axis=1).astype(np.int32))


def best_trade_off(scores: np.ndarray, trade_offs: Sequence[float] = TRADE_OFFS) -> float:
    """The λ with which the right answer is most probable, the smaller of equals.

    Means are of P, not of log P: how often the LM would give that answer, which is what a metric counts. A mean of
    logs hangs on the queries that are answered wrongly with every λ.

    Args:
        scores: float [Q, len(trade_offs)], log P of the right answer; among the choices where there are any,
            because that is what decides an answer.
    """
    return float(trade_offs[int(np.argmax(np.exp(scores).mean(axis=0)))])
