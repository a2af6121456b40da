"""Adapters: a linear map on each side of vectors that are already there, in place of a whole encoder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.training.free.rows import Observed, beside, features, label_places


@dataclass(frozen=True)
class Adapter:
    """A linear map to unit vectors on each side, beside the vectors themselves.

    The side of the bank sees an example's output: its one-hot label if `labels` are given, else the output's vector.
    Relevance is the cosine of the mapped vectors + a learnt weight times the cosine of the inputs.
    """

    labels: tuple[str, ...]
    query_kernel: Float[np.ndarray, "f w"]
    query_bias: Float[np.ndarray, " w"]
    example_kernel: Float[np.ndarray, "g w"]
    example_bias: Float[np.ndarray, " w"]
    cosine_weight: float
    scale: float
    """Factor of relevance in a softmax over examples, where training goes on."""

    def query(self, rows: Observed) -> Float[np.ndarray, "n d"]:
        """Return [unit(features · kernel + bias), √weight · u]."""
        mapped = unit_rows(features(rows) @ self.query_kernel + self.query_bias)
        return beside(mapped, rows.vectors, self.cosine_weight)

    def examples(self, rows: Observed) -> Float[np.ndarray, "n d"]:
        """Return the same of the features beside the output's."""
        mapped = unit_rows(example_features(rows, self.labels) @ self.example_kernel + self.example_bias)
        return beside(mapped, rows.vectors, self.cosine_weight)


def example_features(rows: Observed, labels: tuple[str, ...]) -> Float[np.ndarray, "n g"]:
    """Return the features of the bank's side of an adapter.

    Args:
        rows: with outputs, or output vectors where there are no labels.
        labels: the labels that have a place; all others share one more.
    """
    if not labels:
        assert rows.output_vectors is not None
        return np.hstack([features(rows), rows.output_vectors])
    one_hot = np.eye(len(labels) + 1, dtype=np.float32)[label_places(rows, labels)]
    return np.hstack([features(rows), one_hot])
