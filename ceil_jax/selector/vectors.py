"""Embedding of texts and examples as unit vectors.

It is checked that the encoder gives one finite vector of equal length for each.

An encoder is any object with `encode(texts) -> [N, D]`; or with `encode_bank(examples)` and
`encode_queries(queries)`, if vectors of examples depend on their outputs. To be saved with a
selector, it needs `name` and `save_pretrained(folder)`, and `open_encoder(folder)` must load it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.example_encoder import ExampleEncoder
from ceil_jax.encoders.text_encoder import EncoderPair, TextEncoder, check_finite
from ceil_jax.errors import UserError
from ceil_jax.store.hashing import digest
from ceil_jax.store.locking import appearing
from ceil_jax.tasks.assets import cache_path, has_cache

log = logging.getLogger(__name__)

KEPT_FROM = 1000
"""The number of texts from which the vectors of a file are kept in the cache."""

Encodes = TextEncoder | Callable[[list[str]], Any] | str | os.PathLike[str] | Any
"""Anything that is accepted as an encoder: see `as_encoders`."""


class FunctionEncoder:
    """A function from texts to vectors, as an encoder."""

    def __init__(self, function: Callable[[list[str]], Any], name: str = "") -> None:
        self.encode = function
        self.name = name or str(getattr(function, "__qualname__", type(function).__name__))

    @cached_property
    def dim(self) -> int:
        """The length D of a vector. The first access calls the function."""
        return np.shape(self.encode(["dimension"]))[1]


def with_dim(encoder: Any) -> Any:
    """Return an encoder of texts with a name and a known vector length.

    Raises:
        UserError: it does not encode texts, but examples.
    """
    if not callable(getattr(encoder, "encode", None)):
        raise UserError(f"encoder is {encoder!r:.80}; expected one with encode(texts)")
    if hasattr(encoder, "dim") and hasattr(encoder, "name"):
        return encoder
    return FunctionEncoder(encoder.encode, str(getattr(encoder, "name", type(encoder).__name__)))


def as_encoders(encoder_like: Any) -> tuple[Any, Any]:
    """Return an encoder of examples and one of queries.

    They are the same object except for LangChain embeddings.

    See `CeilSelector.from_examples` for what is accepted; anything else is a UserError.
    """
    if isinstance(encoder_like, (str, os.PathLike)):
        from ceil_jax.training.free.encoder import open_encoder

        encoder_like = open_encoder(encoder_like)
    # a class has these methods too, but they need an instance
    if not isinstance(encoder_like, type):
        if any(callable(getattr(encoder_like, side, None)) for side in ("encode", "encode_bank")):
            return encoder_like, encoder_like
        methods = ("embed_documents", "embed_query")
        if all(callable(getattr(encoder_like, method, None)) for method in methods):
            return _of_langchain(encoder_like)
        if callable(encoder_like):
            encoder = FunctionEncoder(encoder_like)
            return encoder, encoder
    raise UserError(
        f"encoder is {encoder_like!r:.80}; expected a name, a folder, a hub id or an address, an object "
        "with encode(texts), LangChain embeddings, or a function from a list of texts to their "
        "vectors"
    )


def _of_langchain(embeddings: Any) -> tuple[FunctionEncoder, FunctionEncoder]:
    """LangChain embeddings as an encoder of examples and one of queries."""
    name = _name_of_langchain(embeddings)
    embed_queries = partial(_embed_queries, embeddings)
    return FunctionEncoder(embeddings.embed_documents, name), FunctionEncoder(embed_queries, name)


def _name_of_langchain(embeddings: Any) -> str:
    """Return the name of LangChain embeddings' model, or else of their class.

    LangChain's packages keep the model's name under one of two field names.
    """
    model = getattr(embeddings, "model_name", None) or getattr(embeddings, "model", None)
    return str(model or type(embeddings).__name__)


def _embed_queries(embeddings: Any, texts: Sequence[str]) -> list[Any]:
    return [embeddings.embed_query(text) for text in texts]


def embed(
    encode: Callable[[list[Any]], Any],
    items: Sequence[Any],
    texts: Sequence[str],
    dim: int | None,
    encoder: Any,
) -> np.ndarray:
    """Return the unit vector of each of N items, float32 [N, D].

    Args:
        encode: a method of the encoder that takes texts or examples.
        items: the texts or examples.
        texts: the text of each item, for messages.
        dim: the bank's D; None if it is not known yet.
        encoder: the encoder, for messages.

    Raises:
        UserError: the vectors have another shape than [N, D], or are not finite.
    """
    if not items:
        return np.zeros((0, dim or 0), np.float32)
    return unit_vectors(encode(list(items)), texts, dim, encoder)


def kept_vectors(encoder: ExampleEncoder, texts: Sequence[str]) -> np.ndarray | None:
    """Return an encoder's vectors of the texts of a bank, float32 [N, D], from the cache.

    The cache folder keeps them as `vectors/KEY.npz`, with a checksum. The key depends on the texts
    and on the encoder's weights.

    None for fewer than KEPT_FROM texts, without a cache folder, and for an encoder that is no local
    network: nothing says then whether it still gives the same vectors.
    """
    if len(texts) < KEPT_FROM or not has_cache():
        return None
    # imports jax, which an encoder of one's own does not need
    from ceil_jax.encoders.encoder import Encoder

    network = encoder.bank if isinstance(encoder, EncoderPair) else None
    if not isinstance(network, Encoder):
        return None
    file = cache_path() / "vectors" / f"{digest([network.fingerprint, list(texts)])}.npz"
    try:
        with np.load(file, allow_pickle=False) as stored:
            kept: np.ndarray = stored["vectors"]
        return kept
    except (OSError, ValueError, KeyError, BadZipFile):  # not there, or damaged
        vectors = network.encode(texts)
    try:
        with appearing(file) as out:
            np.savez(out, vectors=vectors)
        log.info("the vectors of %d texts are kept in %s", len(texts), file)
    except UserError as error:
        log.info("the vectors of %d texts are not kept: %s", len(texts), error)
    return vectors


def unit_vectors(vectors: Any, texts: Sequence[str], dim: int | None, encoder: Any) -> np.ndarray:
    """Return an encoder's vectors of N texts as float32 unit rows [N, D].

    Args:
        vectors: what the encoder returned: an array, a tensor or lists of numbers.
        texts: the N texts.
        dim: the expected length of a vector; None for any.
        encoder: the encoder, which messages name.

    Raises:
        UserError: their shape is not (N, dim), or they are not finite.
    """
    name = str(getattr(encoder, "name", None) or type(encoder).__name__)
    expected = f"expected ({len(texts)}, {dim or 'D'})"
    if hasattr(vectors, "detach"):  # a tensor of torch, which numpy may not take as it is
        vectors = vectors.detach().float().cpu().numpy()
    try:
        vectors = np.asarray(vectors, np.float32)
    except (TypeError, ValueError) as error:
        what = (
            f"{type(vectors).__name__}, which is not an array of numbers with one length ({error})"
        )
        raise UserError(f"encoder {name} gave a {what}; {expected}") from None
    is_matrix = vectors.ndim == 2 and len(vectors) == len(texts)
    if not is_matrix or (dim and vectors.shape[1] != dim):
        if dim:
            expected += ": the bank was embedded by an encoder of that size"
        raise UserError(
            f"encoder {name}: vectors of shape {vectors.shape} for {len(texts)} texts; {expected}"
        )
    check_finite(vectors, texts, name)
    return unit_rows(vectors)
