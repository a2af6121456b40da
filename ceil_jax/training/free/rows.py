"""The vectors and texts that free methods learn from, and the pair of maps that a free method
is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

Vectors = Float[np.ndarray, "n d"]


class Observed(NamedTuple):
    """N queries or bank examples, as free methods see them. For queries `outputs` and `structures`
    are empty."""

    texts: Sequence[str]
    """Their inputs."""
    vectors: Float[np.ndarray, "n d"]
    """Vectors of the inputs, unit rows, from any encoder."""
    parts: Float[np.ndarray, "n p d"] | None = None
    """Vectors of the two texts of an input that is made of two, unit rows."""
    outputs: Sequence[str] = ()
    structures: Sequence[frozenset[str]] = ()
    """Local structures of the outputs, where they parse."""

    def take(self, places: Int[np.ndarray, " m"]) -> Observed:
        """Return those at these places."""

        def some(held: Sequence | np.ndarray | None) -> Sequence | np.ndarray | None:
            return (
                held[places] if isinstance(held, np.ndarray) else held and [held[i] for i in places]
            )

        return Observed(*map(some, self))  # type: ignore[arg-type]


class FreeMethod(Protocol):
    """A pair of maps to vectors of one length D' whose dot product is relevance: larger is better.

    The last D places of a vector are √weight · the vector of the input."""

    @property
    def cosine_weight(self) -> float:
        """The weight of the inputs' cosine."""

    def query(self, rows: Observed) -> Vectors:
        """Return the vectors of queries, float32 [N, D']; outputs are not read."""

    def examples(self, rows: Observed) -> Vectors:
        """Return the vectors of bank examples, float32 [N, D'], of one length: cosines rank as dot
        products do."""


class Cosine:
    """The untrained pair: the vectors of the inputs as they are."""

    cosine_weight = 1.0

    def query(self, rows: Observed) -> Vectors:
        return rows.vectors

    def examples(self, rows: Observed) -> Vectors:
        return rows.vectors


def features(rows: Observed) -> Vectors:
    """Return the features of inputs: the vectors, or u, v, |u − v| and u · v of an input's two
    texts u and v.

    The vector of two joined texts says nothing about how they differ (InferSent, Conneau et al.
    2017).
    """
    if rows.parts is None:
        return rows.vectors
    u, v = rows.parts[:, 0], rows.parts[:, 1]
    return np.hstack([u, v, np.abs(u - v), u * v])


def beside(block: Vectors, vectors: Vectors, weight: float) -> Vectors:
    """Return float32 [block, √weight · vectors]: the dot product adds weight · cosine to that of
    the blocks."""
    return np.hstack([block, np.sqrt(weight) * vectors]).astype(np.float32)


def label_places(rows: Observed, labels: Sequence[str]) -> Int[np.ndarray, " n"]:
    """Return the place of each row's output among the labels; one that is not there has the place
    after the last."""
    place = {label: i for i, label in enumerate(labels)}
    return np.array([place.get(output, len(place)) for output in rows.outputs], int)
