"""Candidate sets of training queries and their scores; EPR's candidates, which are sets of one
example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int32

from ceil_jax.retrieval.bm25 import LexicalIndex
from ceil_jax.retrieval.own_rows import OwnRows
from ceil_jax.retrieval.ranking import best_first, earlier_equals
from ceil_jax.tasks.example import Example
from ceil_jax.training.fixed_blocks import FixedBlocks


class CandidateSets(NamedTuple):
    """M sets of bank examples for each of Q queries."""

    shortlist: Int32[np.ndarray, "q n"]
    """Bank positions, nearest first; −1 at empty positions at the end."""
    subsets: Int32[np.ndarray, "q m k"]
    """Positions in the shortlist, nearest first; −1 at empty positions at the end."""


class ScoredSets(NamedTuple):
    """The candidate sets of training queries and their scores."""

    candidates: CandidateSets
    scores: Float[np.ndarray, "q m"]
    """LM scores: Σ log P of the gold output's tokens, in nats; or other scores, higher for better
    sets."""


class TrainingData(NamedTuple):
    """The data that a retriever is trained on."""

    queries: Sequence[Example]
    bank: Sequence[Example]
    candidates: CandidateSets
    scores: Float[np.ndarray, "q m"]
    used_by_start: Bool[np.ndarray, " q"] | None = None
    """Which queries the starting weights were trained on; these are not held out. None by
    default."""
    fixed: FixedBlocks | None = None
    """Blocks of the vectors that are not trained, beside those of the network; none by default."""


def epr_candidates(
    queries: Sequence[Example], bank: Sequence[Example], count: int
) -> CandidateSets:
    """Return EPR's candidates: `count` single examples for each query, found by BM25, never the
    query itself (by id).

    The released code compares the query's *output* with the bank's outputs. So do we if outputs are
    free text. If they are choices, that would give many ties (the same few lists for all queries),
    so inputs are compared; and if all examples have the same choices, each choice gets the same
    number of candidates. (Rubin et al. 2022, section 3; the change is ours.)
    """
    options = {example.choices for example in bank}
    by_input = bool(bank[0].choices)
    index = LexicalIndex([example.input if by_input else example.output for example in bank])
    # the number of each example's output, where each output gets the same number of candidates
    groups = np.zeros(len(bank), np.int64)
    if by_input and len(options) == 1:
        groups = np.array([bank[0].choices.index(example.output) for example in bank])
    count = min(count, len(bank) - 1)
    shortlist = np.full((len(queries), count), -1, np.int32)
    texts = [query.input if by_input else query.output for query in queries]
    index.warn_of_strangers(texts)
    for row, own_positions in enumerate(OwnRows(bank, "id")(queries)):
        scores = index.scores(texts[row])
        scores[own_positions] = -np.inf
        order = best_first(scores, len(bank))
        order = order[np.isfinite(scores[order])]
        # the best of every output comes first, then the second best of every output, …
        rank_in_group = earlier_equals(groups[order])
        shortlist[row] = order[np.argsort(rank_in_group, kind="stable")][:count]
    # each example of the shortlist is a set of its own
    singles = np.arange(count, dtype=np.int32)[None, :, None]
    subsets = np.broadcast_to(singles, (len(queries), count, 1))
    return CandidateSets(shortlist, subsets)
