"""The inputs of heads, and the protocol of a head, which maps queries and examples to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

Vectors = Float[np.ndarray, "n d"]


class Observations(NamedTuple):
    """Queries or bank examples as inputs of heads, N of them.

    For queries, `outputs` and `structures` are empty.
    """

    texts: Sequence[str]
    """The inputs of the queries or examples."""
    vectors: Float[np.ndarray, "n d"]
    """The vectors of the inputs by any encoder, unit rows."""
    parts: Float[np.ndarray, "n p d"] | None = None
    """The vectors of the two texts of each input, unit rows; None if inputs are single texts."""
    outputs: Sequence[str] = ()
    structures: Sequence[frozenset[str]] = ()
    """The local structures of the outputs, if these are programs."""

    def take(self, rows: Int[np.ndarray, " m"]) -> Observations:
        """Return the observations at some positions."""
        return Observations(
            texts=[self.texts[row] for row in rows],
            vectors=self.vectors[rows],
            parts=None if self.parts is None else self.parts[rows],
            outputs=[self.outputs[row] for row in rows] if len(self.outputs) else (),
            structures=[self.structures[row] for row in rows] if len(self.structures) else (),
        )


class Head(Protocol):
    """A map from queries, and from examples with their outputs, to blocks of one width w.

    The dot product of two blocks is the relevance learnt from outputs. A head's relevance is this
    plus `cosine_weight` times the cosine of the inputs; `beside` joins both into one vector.
    """

    @property
    def cosine_weight(self) -> float:
        """The weight of the inputs' cosine."""

    def query_block(self, rows: Observations) -> Float[np.ndarray, "n w"]:
        """Return the blocks of queries; outputs are not read."""

    def example_block(self, rows: Observations) -> Float[np.ndarray, "n w"]:
        """Return the blocks of bank examples.

        All have the same norm, so that cosines of whole vectors rank as dot products do.
        """


class Cosine:
    """The head without a block: only the cosine counts."""

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
    """Return the features of inputs: their vectors.

    For inputs of two texts with vectors u and v, they are the concatenation of u, v, |u − v| and
    the element-wise product.

    The vector of two joined texts does not show how they differ (InferSent, Conneau et al. 2017).
    """
    if rows.parts is None:
        return rows.vectors
    u = rows.parts[:, 0]
    v = rows.parts[:, 1]
    return np.hstack([u, v, np.abs(u - v), u * v])


def beside(block: Vectors, vectors: Vectors, weight: float) -> Vectors:
    """Return [block, √weight · vectors], float32.

    The dot product of two such vectors is that of the blocks plus weight · cosine.
    """
    return np.hstack([block, np.sqrt(weight) * vectors]).astype(np.float32)


def label_positions(rows: Observations, labels: Sequence[str]) -> Int[np.ndarray, " n"]:
    """Return the position of each row's output among the labels.

    The position after the last for an unknown one.
    """
    position = {label: i for i, label in enumerate(labels)}
    return np.array([position.get(output, len(position)) for output in rows.outputs], int)
