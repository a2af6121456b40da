"""Stages of vectors: of texts by an encoder, and of examples by a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.text_encoder import EncoderPair, TextEncoder, check_finite, sides
from ceil_jax.encoders.tokenizers import LENGTHS, TRAINING_LENGTHS, padded_length
from ceil_jax.pipeline.models import NamedEncoder
from ceil_jax.pipeline.stage import Run, Stage, Work, closure
from ceil_jax.pipeline.views import RetrievalTexts
from ceil_jax.store.folder import load_arrays, save_arrays
from ceil_jax.training.free.encoder import observations
from ceil_jax.training.free.rows import Head, Observations, beside

Side = Literal["query", "bank"]


@dataclass(frozen=True)
class UntrainedEncoder(Stage[EncoderPair]):
    """The encoder as it was loaded, for queries and examples."""

    in_memory: ClassVar[bool] = True
    kind = "loadedencoder"
    encoder: NamedEncoder

    def load(self, run: Run, folder: Path) -> EncoderPair:
        return sides(self.encoder.get())


@dataclass(frozen=True)
class TextVectors(Stage[np.ndarray]):
    """An encoder's vectors of retrieval texts, float32 [N, D]."""

    what = "encoding texts"
    kind = "vectors"
    encoders: Stage[EncoderPair]
    view: RetrievalTexts
    side: Side = "query"
    """The side whose encoder is used; "query" if both sides have the same encoder."""

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        encoders = run.get(self.encoders)
        encoder: TextEncoder = encoders.query if self.side == "query" else encoders.bank
        texts = [example.input for example in run.get(self.view)]
        position = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        vectors = encoder.encode(list(position))
        check_finite(vectors, list(position), encoder.name)
        save_arrays(folder / "vectors.npz", vectors=vectors[[position[text] for text in texts]])
        return {"texts": len(texts)}

    def load(self, run: Run, folder: Path) -> np.ndarray:
        return load_arrays(folder / "vectors.npz")["vectors"]

    def estimate(self, run: Run) -> Work:
        facts = text_facts(self.encoders, self.view, 0.5)
        return Work(encoded=facts.texts * facts.tokens * facts.parameters)


@dataclass(frozen=True)
class SkillVectors(Stage[np.ndarray]):
    """The vectors of the m skills of each example, float32 [N, m, D]."""

    in_memory: ClassVar[bool] = True
    vectors: TextVectors
    orders: int

    def load(self, run: Run, folder: Path) -> Float[np.ndarray, "n m d"]:
        vectors = run.get(self.vectors)
        return vectors.reshape(-1, self.orders, vectors.shape[1])


@dataclass(frozen=True)
class HeadInputs(Stage[Observations]):
    """Examples as inputs of a head."""

    in_memory: ClassVar[bool] = True
    view: RetrievalTexts
    vectors: TextVectors
    """The untrained encoder's vectors of their inputs."""
    parts: TextVectors | None
    """The vectors of the two texts of each input; None if inputs are single texts."""
    parser: str
    outputs: bool
    """Whether the head may see the outputs: true for the bank, false for queries."""

    def load(self, run: Run, folder: Path) -> Observations:
        parts = None if self.parts is None else run.get(self.parts)
        return observations(
            run.get(self.view),
            run.get(self.vectors),
            parts,
            parser=self.parser if self.outputs else "",
            outputs=self.outputs,
        )


@dataclass(frozen=True)
class UnitVectors(Stage[np.ndarray]):
    """Vectors without a head: unit rows, float32 [N, D]."""

    in_memory: ClassVar[bool] = True
    vectors: TextVectors

    def load(self, run: Run, folder: Path) -> np.ndarray:
        return unit_rows(run.get(self.vectors))


@dataclass(frozen=True)
class HeadBlocks(Stage["np.ndarray | None"]):
    """A head's blocks of queries or examples, float32 [N, w]; None if there is no head."""

    in_memory: ClassVar[bool] = True
    head: Stage[Head | None]
    rows: HeadInputs
    side: Side

    def load(self, run: Run, folder: Path) -> np.ndarray | None:
        head = run.get(self.head)
        if head is None:
            return None
        rows = run.get(self.rows)
        return head.query_block(rows) if self.side == "query" else head.example_block(rows)


@dataclass(frozen=True)
class QueryBlocks(Stage["np.ndarray | None"]):
    """The blocks of queries that are bank rows, taken from the blocks of the whole bank."""

    in_memory: ClassVar[bool] = True
    blocks: Stage[np.ndarray | None]
    positions: np.ndarray

    def load(self, run: Run, folder: Path) -> np.ndarray | None:
        blocks = run.get(self.blocks)
        return None if blocks is None else blocks[self.positions]


@dataclass(frozen=True)
class HeadVectors(Stage[np.ndarray]):
    """Vectors with a head: its blocks beside the encoder's vectors, unit rows, float32 [N, w +
    D]."""

    in_memory: ClassVar[bool] = True
    head: Stage[Head | None]
    blocks: Stage[np.ndarray | None]
    vectors: TextVectors

    def load(self, run: Run, folder: Path) -> np.ndarray:
        head = run.get(self.head)
        cosines = unit_rows(run.get(self.vectors))
        blocks = run.get(self.blocks)
        if head is None or blocks is None:
            return cosines
        return unit_rows(beside(blocks, cosines, head.cosine_weight))


class TextFacts(NamedTuple):
    """How many texts are encoded, how long they are, and how large the encoder is: the work of
    encoding them."""

    texts: int
    tokens: int
    """Tokens of a text, padding included."""
    parameters: int
    """Number of parameters of the untrained encoder."""


def text_facts(
    encoders: Stage[EncoderPair], view: RetrievalTexts, quantile: float, training: bool = False
) -> TextFacts:
    """Return the amounts from which the work of encoding retrieval texts is estimated.

    Args:
        encoders: the encoders, untrained or trained.
        view: the texts. The task's inputs are measured in place of texts that an LM rewrites.
        quantile: texts are taken to be padded to this quantile of the lengths of a sample.
        training: whether texts are padded as in training.
    """
    loaded = next(stage for stage in closure([encoders]) if isinstance(stage, UntrainedEncoder))
    encoder = loaded.encoder.get()
    examples = view.source.examples
    if not isinstance(encoder, Encoder):
        return TextFacts(len(examples), 0, 0)
    texts = [example.input for example in examples[:200]]
    lengths = [len(ids) for ids in encoder.tokenizer(texts, encoder.max_length)]
    longest = float(np.quantile(lengths, quantile))
    padded = padded_length(longest, encoder.max_length, TRAINING_LENGTHS if training else LENGTHS)
    parameters = sum(int(np.prod(leaf.shape)) for leaf in encoder.params.values())
    return TextFacts(len(examples), padded, parameters)
