"""Texts and examples → unit vectors that are checked: as many as texts, of one length, finite.

An encoder is anything with `encode(texts) -> [N, D]`; or one with two sides, `encode_bank(examples)`
and `encode_queries(queries)`, for vectors that depend on the examples' outputs. An encoder that is
to be saved with a selector has `name` and `save_pretrained(folder)`, and `open_encoder(folder)`
brings it back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.text_encoder import TextEncoder, check_finite
from ceil_jax.errors import UserError

QUERIES_REMEMBERED = 1024
"""The queries whose vectors are kept for the store that is asked next."""

Encodes = TextEncoder | Callable[[list[str]], Any] | str | os.PathLike[str] | Any
"""Anything that may be given as an encoder: see `as_encoders`."""


class FunctionEncoder:
    """A function from texts to vectors, as an encoder."""

    def __init__(self, function: Callable[[list[str]], Any], name: str = "") -> None:
        self.encode = function
        self.name = name or str(getattr(function, "__qualname__", type(function).__name__))


class RememberedQueries:
    """LangChain embeddings that embed a query once: a store searches by the vector that the
    selector has asked for."""

    def __init__(self, embeddings: Any) -> None:
        self.embed_documents = embeddings.embed_documents
        self.embed_query = lru_cache(QUERIES_REMEMBERED)(embeddings.embed_query)
        named = getattr(embeddings, "model_name", None) or getattr(embeddings, "model", None)
        self.model = str(named or type(embeddings).__name__)


def as_encoders(encoder_like: Any) -> tuple[Any, Any]:
    """Return what embeds examples and what embeds queries; the same object but for LangChain's
    embeddings.

    `CeilSelector.from_examples` says what may be given; anything else is a UserError.
    """
    if isinstance(encoder_like, (str, os.PathLike)):
        from ceil_jax.training.free.encoder import open_encoder

        encoder_like = open_encoder(encoder_like)
    # a class has methods too, and nothing to call them on
    if not isinstance(encoder_like, type):
        if any(callable(getattr(encoder_like, side, None)) for side in ("encode", "encode_bank")):
            return encoder_like, encoder_like
        if callable(getattr(encoder_like, "embed_documents", None)) and callable(
            getattr(encoder_like, "embed_query", None)
        ):
            named = getattr(encoder_like, "model_name", None) or getattr(
                encoder_like, "model", None
            )
            name = str(named or type(encoder_like).__name__)
            query = FunctionEncoder(
                lambda texts: [encoder_like.embed_query(text) for text in texts], name
            )
            return FunctionEncoder(encoder_like.embed_documents, name), query
        if callable(encoder_like):
            encoder = FunctionEncoder(encoder_like)
            return encoder, encoder
    raise UserError(
        f"encoder is {encoder_like!r:.80}; expected a name, a folder, a hub id or an address, an object "
        "with encode(texts), LangChain embeddings, or a function from a list of texts to their "
        "vectors"
    )


def embed(
    encode: Callable[[list[Any]], Any],
    items: Sequence[Any],
    texts: Sequence[str],
    dim: int | None,
    encoder: Any,
) -> np.ndarray:
    """Return the unit vector of each of N items, float32 [N, D].

    Args:
        encode: a method of the encoder, which takes texts, or examples.
        items: what it takes.
        texts: the text of each item, for messages.
        dim: the bank's D; None while it has none.
        encoder: the encoder, for messages.

    Raises:
        UserError: the vectors have another shape than [N, D], or are not finite.
    """
    if not items:
        return np.zeros((0, dim or 0), np.float32)
    return unit_vectors(encode(list(items)), texts, dim, encoder)


def unit_vectors(vectors: Any, texts: Sequence[str], dim: int | None, encoder: Any) -> np.ndarray:
    """Return the vectors that an encoder gave for N texts as float32 unit rows [N, D].

    Another shape than (N, dim), and numbers that are not finite, are UserErrors.
    """
    name = str(getattr(encoder, "name", None) or type(encoder).__name__)
    expected = f"expected ({len(texts)}, {dim or 'D'})"
    if hasattr(vectors, "detach"):  # a tensor of torch, which numpy may not take as it is
        vectors = vectors.detach().float().cpu().numpy()
    try:
        vectors = np.asarray(vectors, np.float32)
    except (TypeError, ValueError) as error:
        what = f"{type(vectors).__name__}, which is no array of numbers with one length ({error})"
        raise UserError(f"encoder {name} gave a {what}; {expected}") from None
    if (
        vectors.ndim != 2
        or len(vectors) != len(texts)
        or vectors.shape[1] != (dim or vectors.shape[1])
    ):
        raise UserError(
            f"encoder {name}: vectors of shape {vectors.shape} for {len(texts)} texts; {expected}"
            + (": the bank was embedded by an encoder of that size" if dim else "")
        )
    check_finite(vectors, texts, name)
    return unit_rows(vectors)
