"""The choice of DPP-MAP's trade-off λ by the LM's answers to training queries.

The criterion is the probability of the right answers. A warning says if λ is so small that the
determinant has no influence.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Int32

from ceil_jax.dpp.kernel import block_log_dets, similarity
from ceil_jax.lm.prompts import Fit
from ceil_jax.lm.token_budget import fitting_prefix
from ceil_jax.retrieval.shortlists import greedy_map_shortlists
from ceil_jax.training.candidates import CandidateSets

TRADE_OFFS = (0.001, 0.005, 0.01, 0.05, 0.1)
"""The grid for λ. The papers' grid is {0.01, 0.05, 0.1}; with few examples in a prompt, the best λ
can be far below it."""

TUNING_QUERIES = 64
"""Number of training queries whose answers are scored with the MAP set of every λ."""


NEAREST_ONLY = 0.05
"""The smallest spread of log det, as a share of the spread of Σ r; below it, the best set is the nearest examples."""

_SPREAD_SETS = 200
"""Number of random sets of a query from which the spreads are computed."""


def map_sets(
    query_vectors: Float[np.ndarray, "q d"],
    items: Float[np.ndarray, "bank d"],
    shortlist: Int32[np.ndarray, "q n"],
    size: int,
    fit: Fit,
    costs: Int[np.ndarray, "q n"],
    remaining: Int[np.ndarray, " q"],
) -> CandidateSets:
    """Return the greedy MAP set for each λ of TRADE_OFFS, nearest first.

    Sets are cut to what fits into a prompt.

    Args:
        query_vectors: unit rows.
        items: the bank, unit rows.
        shortlist: the n nearest examples of each query; −1 at empty positions.
        size: examples in a set, before any is dropped.
        fit: which examples are dropped if not all fit, as in `lm.prompts.PromptBuilder.build`.
        costs: the tokens of each shortlisted example.
        remaining: the tokens that each query's prompt has left for examples.
    """
    # empty positions of a set get the number after the shortlist's last, which sorts to the end and
    # costs no tokens
    empty = shortlist.shape[1]
    costs = np.pad(costs, ((0, 0), (0, 1)))
    subsets = []
    for trade_off in TRADE_OFFS:
        chosen = greedy_map_shortlists(query_vectors, items, shortlist, size, trade_off).items
        in_shortlist = (chosen[:, :, None] == shortlist[:, None, :]).argmax(axis=2)
        positions = np.where(chosen < 0, empty, in_shortlist)
        if fit == "similarity":
            positions = np.sort(positions, axis=1)
        stays = fitting_prefix(np.take_along_axis(costs, positions, axis=1), remaining)
        nearest_first = np.sort(np.where(stays, positions, empty), axis=1)
        subsets.append(np.where(nearest_first == empty, -1, nearest_first))
    return CandidateSets(shortlist, np.stack(subsets, axis=1).astype(np.int32))


def log_det_share(
    query_vectors: Float[np.ndarray, "q d"],
    items: Float[np.ndarray, "bank d"],
    shortlist: Int32[np.ndarray, "q n"],
    size: int,
) -> float:
    """Return the spread of log det S_S over sets S divided by the spread of Σ r.

    These are the two terms of log det L'_S = Σ r / λ + log det S_S, so that the result times λ
    compares them at that λ.

    A spread is the standard deviation over 200 random sets from a query's shortlist, averaged over
    queries. The result is infinite if all sets are equally relevant.

    Args:
        query_vectors: unit rows.
        items: the bank, unit rows.
        shortlist: the n nearest examples of each query; −1 at empty positions.
        size: examples in a set. The result for sets of one is 0, because their log det is 0.
    """
    log_det_spread = 0.0
    relevance_spread = 0.0
    generator = np.random.default_rng(0)
    for query, row in zip(query_vectors, shortlist, strict=True):
        features = items[row[row >= 0]]
        k = min(size, len(features))
        sets = np.argsort(generator.random((_SPREAD_SETS, len(features))), axis=1)[:, :k]
        log_dets = block_log_dets(jnp.asarray(features), jnp.asarray(sets))
        relevances = similarity(features @ query)
        log_det_spread += float(np.std(log_dets))
        relevance_spread += float(np.std(relevances[sets].sum(axis=1)))
    if log_det_spread == 0:
        return 0.0
    return log_det_spread / relevance_spread if relevance_spread > 0 else np.inf


def trade_off_note(trade_off: float, share: float) -> str:
    """Return a sentence that warns of a λ so small that log det has no influence; "" for others.

    The limit is a share of the spread (`log_det_share`) of 5 %. It was measured on COGS and
    GeoQuery's template split, with sets of three of the nearest 50. At λ = 0.001 the share is 1.7
    %; Σ r alone then orders sets as the whole score does (τ 0.991), and 3.84 of MAP's four examples
    are among the nearest four. At λ = 0.01 the share is 17 %.

    Args:
        trade_off: λ.
        share: the result of `log_det_share`.

    >>> trade_off_note(0.001, 17.0)
    'λ = 0.001: the set is the nearest examples (log det has 1.7 % of the spread of Σ r / λ)'
    >>> trade_off_note(0.01, 17.0)
    ''
    """
    at_trade_off = share * trade_off
    if at_trade_off >= NEAREST_ONLY:
        return ""
    return (
        f"λ = {trade_off:g}: the set is the nearest examples (log det has "
        f"{100 * at_trade_off:.1f} % of the spread of Σ r / λ)"
    )


def best_trade_off(scores: Float[np.ndarray, "q lambdas"]) -> float:
    """Return the λ of TRADE_OFFS with which the right answers are most probable.

    In a tie, the smaller one.

    P and not log P is averaged over queries: it is how often the LM would give that answer, which
    is what a metric counts. A mean of logs would depend mostly on queries that are answered wrongly
    with every λ. The scores are log P of the right answer, or of its share of the probability of
    all choices.
    """
    return TRADE_OFFS[int(np.argmax(np.exp(scores).mean(axis=0)))]
