"""The trade-off λ of DPP-MAP, chosen on training queries by what the LM says of the right answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ceil_jax.proposals import Proposal

TRADE_OFFS = (0.001, 0.005, 0.01, 0.05, 0.1)
"""The papers' grid for λ is {0.01, 0.05, 0.1}; with few examples a prompt the best can lie far below it."""

TUNING_QUERIES = 64
"""Training queries whose answers are scored with the MAP set of every λ."""


def propose_map(
    query_vectors: np.ndarray,
    items: np.ndarray,
    shortlist: np.ndarray,
    size: int,
    trade_offs: Sequence[float] = TRADE_OFFS,
) -> Proposal:
    """The greedy MAP set of every λ, for `candidates.score` to score.

    Args:
        query_vectors: float32 [Q, D], unit rows.
        items: float32 [N, D], the bank's, unit rows.
        shortlist: int32 [Q, n], bank positions, nearest first, −1 where there are fewer.

    Returns:
        Subsets int32 [Q, len(trade_offs), size], nearest first.
    """
    from ceil_jax.greedy import greedy_map_shortlists

    subsets = []
    for trade_off in trade_offs:
        chosen = greedy_map_shortlists(query_vectors, items, shortlist, size, trade_off).items
        # bank positions back to places in the shortlist; empty places go last
        place = (chosen[:, :, None] == shortlist[:, None, :]).argmax(axis=2)
        place = np.sort(np.where(chosen < 0, shortlist.shape[1], place), axis=1)
        subsets.append(np.where(place == shortlist.shape[1], -1, place))
    return Proposal(shortlist, np.stack(subsets, axis=1).astype(np.int32))


def best_trade_off(scores: np.ndarray, trade_offs: Sequence[float] = TRADE_OFFS) -> float:
    """The λ with the highest mean score, the smaller of equals.

    Args:
        scores: float [Q, len(trade_offs)], log P of the right answer; among the choices where there are any,
            because that is what decides an answer.
    """
    return float(trade_offs[int(np.argmax(scores.mean(axis=0)))])
