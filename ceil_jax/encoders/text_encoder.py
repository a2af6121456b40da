"""The protocol that retrieval needs of an encoder, and the check of the vectors it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from ceil_jax.errors import UserError


@runtime_checkable
class TextEncoder(Protocol):
    """Anything that turns texts into vectors; it can retrieve, but only an `Encoder` can be trained."""

    @property
    def name(self) -> str:
        """The name shown in reports and errors."""
        ...

    @property
    def dim(self) -> int:
        """The length D of a vector."""
        ...

    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
        """Return the vector of each text, float32 [N, D], in the order given."""
        ...


def check_texts(texts: Sequence[str]) -> None:
    """Check that `texts` is a list of strings.

    Raises:
        UserError: it is one string, or an entry is not a string; the entry is named.
    """
    if isinstance(texts, str):
        raise UserError(f"texts is one string, {texts[:40]!r}; expected a list of strings")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise UserError(f"texts[{i}] is {text!r}; expected a string")


def check_finite(vectors: Float[np.ndarray, "n d"], texts: Sequence[str], name: str) -> None:
    """Check that the vector of every text is finite: one NaN empties a similarity, a kernel and then a whole prompt.

    Raises:
        UserError: a vector holds NaN or infinity; the message names the encoder and the first such text.
    """
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        first = int(np.argmin(finite))
        raise UserError(
            f"encoder {name} gives vectors that are not finite for {int((~finite).sum())} of {len(texts)} texts, "
            f"first for {texts[first][:60]!r}; its weights may be damaged: load another checkpoint"
        )
