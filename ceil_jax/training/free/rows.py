"""The vectors and texts that heads learn from, and what a head is: a pair of maps to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

Vectors = Float[np.ndarray, "n d"]


class Observations(NamedTuple):
    """N queries or bank examples, as heads see them. For queries `outputs` and `structures` are
    empty."""

    texts: Sequence[str]
    """Their inputs."""
    vectors: Float[np.ndarray, "n d"]
    """Vectors of the inputs, unit rows, from any encoder."""
    parts: Float[np.ndarray, "n p d"] | None = None
    """Vectors of the two texts of an input that is made of two, unit rows."""
    outputs: Sequence[str] = ()
    structures: Sequence[frozenset[str]] = ()
    """Local structures of the outputs, where they parse."""

    def take(self, rows: Int[np.ndarray, " m"]) -> Observations:
        """Return those at these positions."""
        return Observations(
            [self.texts[row] for row in rows],
            self.vectors[rows],
            None if self.parts is None else self.parts[rows],
            [self.outputs[row] for row in rows] if len(self.outputs) else (),
            [self.structures[row] for row in rows] if len(self.structures) else (),
        )


class Head(Protocol):
    """A pair of maps, of queries and of examples with their outputs, to blocks of one width w.

    The dot product of two blocks is the relevance that the outputs have taught. A head's relevance
    is that plus `cosine_weight` times the cosine of the inputs; `beside` makes one vector of both.
    """

    @property
    def cosine_weight(self) -> float:
        """The weight of the inputs' cosine."""

    def query_block(self, rows: Observations) -> Float[np.ndarray, "n w"]:
        """Return the blocks of queries; outputs are not read."""

    def example_block(self, rows: Observations) -> Float[np.ndarray, "n w"]:
        """Return the blocks of bank examples, of one length with that of the cosine: cosines rank
        as dot products do."""


class Cosine:
    """The head of the untrained encoder: an empty block beside the cosine."""

    cosine_weight = 1.0

    def query_block(self, rows: Observations) -> Vectors:
        return np.zeros((len(rows.texts), 0), np.float32)

    def example_block(self, rows: Observations) -> Vectors:
        return np.zeros((len(rows.texts), 0), np.float32)


def query_vectors(head: Head, rows: Observations) -> Vectors:
    """Return a head's vectors of queries, float32 [N, w + D]."""
    return beside(head.query_block(rows), rows.vectors, head.cosine_weight)


def example_vectors(head: Head, rows: Observations) -> Vectors:
    """Return a head's vectors of bank examples, float32 [N, w + D]."""
    return beside(head.example_block(rows), rows.vectors, head.cosine_weight)


def features(rows: Observations) -> Vectors:
    """Return the features of inputs: the vectors, or u, v, |u − v| and u · v of an input's two
    texts u and v.

    The vector of two joined texts says nothing about how they differ (InferSent, Conneau et al.
    2017).
    """
    if rows.parts is None:
        return rows.vectors
    u = rows.parts[:, 0]
    v = rows.parts[:, 1]
    return np.hstack([u, v, np.abs(u - v), u * v])


def beside(block: Vectors, vectors: Vectors, weight: float) -> Vectors:
    """Return float32 [block, √weight · vectors]: the dot product adds weight · cosine to that of
    the blocks."""
    return np.hstack([block, np.sqrt(weight) * vectors]).astype(np.float32)


def label_positions(rows: Observations, labels: Sequence[str]) -> Int[np.ndarray, " n"]:
    """Return the position of each row's output among the labels; one that is not there has the
    position after the last."""
    position = {label: i for i, label in enumerate(labels)}
    return np.array([position.get(output, len(position)) for output in rows.outputs], int)
