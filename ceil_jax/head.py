"""A linear head on what is known of a query and an example: the encoder's relevance, shared words, outputs, lengths.

An encoder must learn from the LM's scores of a few hundred queries what makes an example good. Some of that is known
without: a bank's outputs, for one, say what a query's own is likely to be. The head gives each such number a weight,
and log det S_S one of its own, which takes the place of λ:

    score(S) ≈ Σ_{i ∈ S} φ_i · w + δ log det S_S.

It is fitted on the queries that training held out (stacking: Wolpert 1992), because on those that an encoder learned
from its relevance is too good to be true. The change to CEIL is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ceil_jax.lexical import LexicalIndex
from ceil_jax.tasks.base import Example

FEATURES = ("relevance", "shared words", "likely output", "length of output", "length of input")

NEIGHBOURS = 50
"""Of a query, whose outputs say what its own is likely to be."""

TEMPERATURE = 0.05
"""Divides cosines: how much more the nearest of them count."""

LEAST_DIVERSITY = 1e-6
"""δ where the fit finds none, or less: only equals are then told apart by it."""


class Head(NamedTuple):
    """How good a set is, up to a factor."""

    weights: np.ndarray
    """float [F], w, one for each of FEATURES."""
    diversity: float
    """δ > 0."""


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


def fit_head(features: np.ndarray, subsets: np.ndarray, log_dets: np.ndarray, scores: np.ndarray) -> Head:
    """Ridge regression of the scores, each query's brought to mean 0 and variance 1; the ridge weighs as much as the
    subsets of one query.

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
    *weights, diversity = np.linalg.solve(flat.T @ flat + ridge, flat.T @ wanted.reshape(-1)) / scale
    return Head(np.array(weights), max(float(diversity), LEAST_DIVERSITY))
