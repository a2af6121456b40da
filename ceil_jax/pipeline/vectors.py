"""Vectors of texts by an encoder, and of examples by a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.text_encoder import EncoderPair, TextEncoder, check_finite, sides
from ceil_jax.encoders.tokenizers import LENGTHS, TRAINING_LENGTHS, padded_length
from ceil_jax.pipeline.models import NamedEncoder
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.views import Texts, source
from ceil_jax.store.kept import Lazy, Noted, Work, array, closure, kept
from ceil_jax.tasks.example import Example

Side = Literal["query", "bank"]


@kept("loadedencoder")
def untrained_encoder(encoder: NamedEncoder) -> EncoderPair:
    """Return the encoder as it was loaded, for queries and examples."""
    return sides(encoder.get())


def work_of_encoding(run: Run, vectors: Lazy[np.ndarray]) -> Work:
    """Return the work of encoding texts."""
    facts = text_facts(vectors.encoders, vectors.view, 0.5)
    return Work(encoded=facts.texts * facts.tokens * facts.parameters)


@kept(
    "vectors",
    files=array("vectors.npz", "vectors"),
    what="encoding texts",
    work=work_of_encoding,
)
def text_vectors(
    encoders: EncoderPair, view: Sequence[Example], side: Side = "query"
) -> np.ndarray | Noted:
    """Return an encoder's vectors of retrieval texts, float32 [N, D].

    Args:
        encoders: the encoders of queries and of examples.
        view: the texts.
        side: the side whose encoder is used; "query" if both sides have the same encoder.
    """
    encoder: TextEncoder = encoders.query if side == "query" else encoders.bank
    texts = [example.input for example in view]
    position = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    vectors = encoder.encode(list(position))
    check_finite(vectors, list(position), encoder.name)
    return Noted(vectors[[position[text] for text in texts]], {"texts": len(texts)})


@kept("skillvectors")
def skill_vectors(vectors: np.ndarray, orders: int) -> Float[np.ndarray, "n m d"]:
    """Return the vectors of the m skills of each example, float32 [N, m, D]."""
    return vectors.reshape(-1, orders, vectors.shape[1])


@kept("unitvectors")
def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Return vectors without a head: unit rows, float32 [N, D]."""
    return unit_rows(vectors)


class TextFacts(NamedTuple):
    """The numbers from which the work of encoding is estimated.

    They are how many texts there are, their length, and the size of the encoder.
    """

    texts: int
    tokens: int
    """Tokens of a text, padding included."""
    parameters: int
    """Number of parameters of the untrained encoder."""


def text_facts(
    encoders: Lazy[EncoderPair], view: Texts, quantile: float, training: bool = False
) -> TextFacts:
    """Return the numbers from which the work of encoding retrieval texts is estimated.

    Args:
        encoders: the encoders, untrained or trained.
        view: the texts. The task's inputs are measured in place of texts that an LM rewrites.
        quantile: texts are taken to be padded to this quantile of the lengths of a sample.
        training: whether texts are padded as in training.
    """
    loaded = next(lazy for lazy in closure([encoders]) if lazy.is_of(untrained_encoder))
    encoder = loaded.encoder.get()
    examples = source(view).examples
    if not isinstance(encoder, Encoder):
        return TextFacts(len(examples), 0, 0)
    texts = [example.input for example in examples[:200]]
    lengths = [len(ids) for ids in encoder.tokenizer(texts, encoder.max_length)]
    longest = float(np.quantile(lengths, quantile))
    padded = padded_length(longest, encoder.max_length, TRAINING_LENGTHS if training else LENGTHS)
    parameters = sum(int(np.prod(leaf.shape)) for leaf in encoder.params.values())
    return TextFacts(len(examples), padded, parameters)
