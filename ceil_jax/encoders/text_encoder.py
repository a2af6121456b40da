"""The protocol of encoders for retrieval, and checks of texts and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example


@runtime_checkable
class TextEncoder(Protocol):
    """An object that turns texts into vectors.

    It can retrieve, but only an `Encoder` can be trained.
    """

    @property
    def name(self) -> str:
        """The name shown in reports and errors."""

    @property
    def dim(self) -> int:
        """The length D of a vector."""

    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
        """Return the vector of each text, float32 [N, D], in order."""


class EncoderPair(NamedTuple):
    """An encoder of queries and an encoder of bank examples, both of which read inputs."""

    query: TextEncoder
    bank: TextEncoder

    def encode_queries(self, queries: Sequence[Example]) -> Float[np.ndarray, "q d"]:
        """Return the vectors of the queries' inputs, float32 [Q, D]."""
        return self.query.encode([query.input for query in queries])

    def encode_bank(self, examples: Sequence[Example]) -> Float[np.ndarray, "n d"]:
        """Return the vectors of the examples' inputs, float32 [N, D]."""
        return self.bank.encode([example.input for example in examples])


def sides(encoder: Any) -> EncoderPair:
    """Return the encoder of queries and that of documents.

    `sides` of an encoder with a prompt for each, else the encoder twice.
    """
    pair = getattr(encoder, "sides", None)
    return pair if isinstance(pair, EncoderPair) else EncoderPair(encoder, encoder)


def check_texts(texts: Sequence[str]) -> None:
    """Raise a UserError that names the wrong entry unless `texts` is a list of strings."""
    if isinstance(texts, str):
        raise UserError(f"texts is one string, {texts[:40]!r}; expected a list of strings")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise UserError(f"texts[{i}] is {text!r}; expected a string")


def check_finite(vectors: Float[np.ndarray, "n d"], texts: Sequence[str], name: str) -> None:
    """Raise a UserError unless every vector is finite.

    A single NaN spoils a similarity, a kernel and a whole prompt.
    """
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        position = int(np.argmin(finite))
        raise UserError(
            f"encoder {name} gives vectors that are not finite for {int((~finite).sum())} of "
            f"{len(texts)} texts, first for {texts[position][:60]!r}; its weights may be damaged: "
            "load another checkpoint"
        )
