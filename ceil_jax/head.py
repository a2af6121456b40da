"""A linear head on what is known of a query and an example: the encoder's relevance, shared words, outputs, lengths.

An encoder must learn from the LM's scores of a few hundred queries what makes an example good. Some of that is known
without: a bank's outputs, for one, say what a query's own is likely to be. The head gives each such number a weight:
r_i = φ_i · w in place of g(a_i, x). It is fitted on the queries that training held out (stacking: Wolpert 1992),
because on those that an encoder learned from its relevance is too good to be true. The change to CEIL is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ceil_jax.lexical import LexicalIndex
from ceil_jax.tasks.base import Example

FEATURES = ("relevance", "shared words", "likely output", "length of output", "length of input")

NEIGHBOURS = 50
"""Of a query, whose outputs say what its own is likely to be."""

TEMPERATURE = 0.05
"""Divides cosines: how much more the nearest of them count."""


class PairFeatures:
    """φ of queries and the examples shortlisted for them.

    Args:
        outputs: float32 [N, D], unit rows: the outputs of the bank, embedded.
    """

    def __init__(self, bank: Sequence[Example], outputs: np.ndarray) -> None:
        self._lexical = LexicalIndex([example.input for example in bank])
        self._outputs = outputs - outputs.mean(0)
        self._lengths = np.log1p([[len(example.output), len(example.input)] for example in bank])

    def __call__(self, queries: Sequence[Example], shortlist: np.ndarray, cosines: np.ndarray) -> np.ndarray:
        """float [Q, n, F]; a query's output is not looked at.

        Args:
            shortlist: int [Q, n], bank positions, nearest first, −1 where there are fewer; never the query itself.
            cosines: float [Q, n], of the query's vector with each one's.
        """
        return np.stack([self._of(*one) for one in zip(queries, shortlist, cosines, strict=True)])

    def weighted(
        self, queries: Sequence[Example], shortlist: np.ndarray, cosines: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """float32 [Q, n]: r_i − max_j r_j, −∞ in empty places."""
        found = np.where(shortlist >= 0, self(queries, shortlist, cosines) @ weights, -np.inf)
        return (found - found.max(axis=1, keepdims=True)).astype(np.float32)

    def _of(self, query: Example, shortlist: np.ndarray, cosines: np.ndarray) -> np.ndarray:
        there = shortlist >= 0
        places = np.maximum(shortlist, 0)
        words = self._lexical.scores(query.input)[places]
        words = words / max(words[there].max(initial=0.0), 1e-9)
        near = np.where(there, cosines, -np.inf)[:NEIGHBOURS] / TEMPERATURE
        weights = np.exp(near - near.max())
        outputs = self._outputs[places]
        likely = weights / weights.sum() @ outputs[:NEIGHBOURS]
        return np.column_stack([(1 + cosines) / 2, words, outputs @ likely, self._lengths[places]])


def fit_head(
    features: np.ndarray, subsets: np.ndarray, log_dets: np.ndarray, scores: np.ndarray
) -> np.ndarray:
    """float [F], the weights: ridge regression of the scores, each query's brought to mean 0 and variance 1, on the
    features' sums over subsets and log det S_S; the ridge weighs as much as the subsets of one query.

    Random subsets say little of how much diversity the best ones bear, so that its weight is left out, and λ is tuned
    for the head as for an encoder. To that end the weighted sum varies within shortlists as much as the encoder's
    relevance.

    Args:
        features: float [Q, n, F].
        subsets: int [Q, M, k], places in the shortlists, −1 for none.
        log_dets: float [Q, M], log det S_S.
        scores: float [Q, M], the LM's.
    """
    rows = np.arange(len(subsets))[:, None, None]
    summed = np.where(subsets[..., None] >= 0, features[rows, np.maximum(subsets, 0)], 0).sum(axis=2)
    columns = np.concatenate([summed, log_dets[..., None]], axis=2)
    columns = columns - columns.mean(axis=1, keepdims=True)
    scale = np.sqrt((columns**2).mean(axis=(0, 1)))
    scale[scale == 0] = np.inf  # what never varies gets no weight
    wanted = scores - scores.mean(axis=1, keepdims=True)
    wanted = wanted / np.maximum(wanted.std(axis=1, keepdims=True), 1e-9)
    flat = (columns / scale).reshape(-1, columns.shape[2])
    ridge = subsets.shape[1] * np.eye(flat.shape[1])
    weights = (np.linalg.solve(flat.T @ flat + ridge, flat.T @ wanted.reshape(-1)) / scale)[:-1]
    ours, encoders = _spread(features @ weights), _spread(features[..., FEATURES.index("relevance")])
    return weights * (encoders / ours if ours > 0 else 1)


def _spread(values: np.ndarray) -> float:
    """How far the values of a query [Q, n] lie from their mean."""
    return float(values.std(axis=1).mean())
