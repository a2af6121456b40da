"""Candidate sets of training queries, and their scores.

Samplers produce them, and trainings take them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int32

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
    """Blocks of the vectors that are not trained, in addition to those of the network; none by
    default."""
