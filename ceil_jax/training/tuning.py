"""The trade-off λ of DPP-MAP, chosen on training queries by how probable the LM finds the right
answer."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Int32

from ceil_jax.lm.prompts import Fit
from ceil_jax.retrieval.shortlists import greedy_map_shortlists
from ceil_jax.training.candidates import CandidateSets

TRADE_OFFS = (0.001, 0.005, 0.01, 0.05, 0.1)
"""The grid for λ. The papers' is {0.01, 0.05, 0.1}; with few examples a prompt the best can be far
below it."""

TUNING_QUERIES = 64
"""Training queries whose answers are scored with the MAP set of every λ."""


def map_sets(
    query_vectors: Float[np.ndarray, "q d"],
    items: Float[np.ndarray, "bank d"],
    shortlist: Int32[np.ndarray, "q n"],
    size: int,
    fit: Fit,
    costs: Int[np.ndarray, "q n"],
    remaining: Int[np.ndarray, " q"],
) -> CandidateSets:
    """Return the greedy MAP set of each λ of TRADE_OFFS as a prompt can hold it, nearest first.

    Vectors are unit rows. `costs` are the tokens of each shortlisted example, `remaining` those
    that a query's prompt has for examples; `fit` says which are dropped where not all fit
    (`lm.prompts`).
    """
    empty = shortlist.shape[1]
    costs = np.pad(costs, ((0, 0), (0, 1)))

    def first_that_fit(places: Int[np.ndarray, "q k"]) -> Int[np.ndarray, "q k"]:
        spent = np.take_along_axis(costs, places, axis=1).cumsum(axis=1)
        return np.where(spent <= remaining[:, None], places, empty)

    subsets = []
    for trade_off in TRADE_OFFS:
        chosen = greedy_map_shortlists(query_vectors, items, shortlist, size, trade_off).items
        # bank positions back to places in the shortlist; empty places go last
        place = (chosen[:, :, None] == shortlist[:, None, :]).argmax(axis=2)
        place = np.where(chosen < 0, empty, place)
        place = (
            np.sort(first_that_fit(place)) if fit == "greedy" else first_that_fit(np.sort(place))
        )
        subsets.append(np.where(place == empty, -1, place))
    return CandidateSets(shortlist, np.stack(subsets, axis=1).astype(np.int32))


def best_trade_off(scores: Float[np.ndarray, "q lambdas"]) -> float:
    """Return the λ of TRADE_OFFS with which the right answer is most probable, the smaller of
    equals.

    The mean over queries is of P, not of log P: how often the LM would give that answer, which is
    what a metric counts. A mean of logs depends mostly on the queries that are answered wrongly
    with every λ. The scores are log P of the right answer, or of its share of all choices'
    probability.
    """
    return TRADE_OFFS[int(np.argmax(np.exp(scores).mean(axis=0)))]
