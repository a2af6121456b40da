"""Texts → unit vectors that are checked: as many as texts, of one length, finite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ceil_jax.encoders.text_encoder import check_finite
from ceil_jax.errors import UserError
from ceil_jax.retrieval.embedded_bank import unit_rows

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

PROGRESS_FROM = 2000
"""Number of texts whose encoding takes long enough for a progress bar."""


def as_encoder(given: Encoder | str | Path) -> Encoder:
    """Return the encoder itself, or the one that `load_encoder` loads by that name."""
    if not isinstance(given, (str, Path)):
        return given
    from ceil_jax.encoders.registry import load_encoder

    return load_encoder(given)


def embed(encoder: Encoder, texts: Sequence[str], dim: int | None) -> np.ndarray:
    """Return the unit vector of each text, float32 [N, D].

    Args:
        encoder: anything with `encode(texts)`.
        texts: N texts.
        dim: the D that the bank has; None while it has none.

    Raises:
        UserError: the encoder gives another shape than (N, dim), or numbers that are not finite.
    """
    if not texts:
        return np.zeros((0, dim or 0), np.float32)
    # a small bank, and any encoder with no more than `encode(texts)`, needs no bar
    shown = {"progress": True} if len(texts) >= PROGRESS_FROM and hasattr(encoder, "fingerprint") else {}
    return checked(encoder.encode(texts, **shown), texts, dim, name_of(encoder))


def name_of(encoder: Any) -> str:
    """Return what to call an encoder in a message."""
    return str(getattr(encoder, "name", None) or type(encoder).__name__)


def checked(vectors: Any, texts: Sequence[str], dim: int | None, encoder: str) -> np.ndarray:
    """Return the vectors as float32 unit rows [N, D].

    Args:
        vectors: the vectors of the texts.
        texts: N texts.
        dim: the D that is expected; None for any.
        encoder: the name of the encoder that gave the vectors.

    Raises:
        UserError: another shape than (N, dim), or numbers that are not finite.
    """
    source = f"encoder {encoder}: "
    expected = f"expected ({len(texts)}, {dim or 'D'})"
    try:
        vectors = np.asarray(vectors, np.float32)
    except (TypeError, ValueError):
        raise UserError(f"{source}vectors of several lengths, or not of numbers; {expected}") from None
    if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.shape[1] != (dim or vectors.shape[1]):
        raise UserError(
            f"{source}vectors of shape {vectors.shape} for {len(texts)} texts; {expected}"
            + (": the bank was embedded by an encoder of that size" if dim else "")
        )
    check_finite(vectors, texts, encoder)
    return unit_rows(vectors)
