"""Stages of vectors: those of texts by an encoder, and those of examples by a method."""

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
class LoadedEncoder(Stage[EncoderPair]):
    """The encoder as it was loaded, for queries and examples."""

    in_memory: ClassVar[bool] = True
    encoder: NamedEncoder

    def load(self, run: Run, folder: Path) -> EncoderPair:
        return sides(self.encoder.get())


@dataclass(frozen=True)
class TextVectors(Stage[np.ndarray]):
    """The vectors of retrieval texts as an encoder gives them, float32 [N, D]."""

    what = "encoding texts"
    kind = "vectors"
    encoders: Stage[EncoderPair]
    view: RetrievalTexts
    side: Side = "query"
    """The side whose encoder is taken; "query" where both are one."""

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
    """The vectors of m skills of each example, float32 [N, m, D]."""

    in_memory: ClassVar[bool] = True
    vectors: TextVectors
    orders: int

    def load(self, run: Run, folder: Path) -> Float[np.ndarray, "n m d"]:
        vectors = run.get(self.vectors)
        return vectors.reshape(-1, self.orders, vectors.shape[1])


@dataclass(frozen=True)
class HeadInputs(Stage[Observations]):
    """Examples as a head sees them."""

    in_memory: ClassVar[bool] = True
    view: RetrievalTexts
    vectors: TextVectors
    """The vectors of their inputs by the loaded encoder."""
    parts: TextVectors | None
    """The vectors of the two texts of each input, where inputs are made of two."""
    parser: str
    outputs: bool
    """Whether outputs are seen: those of the bank are, those of queries are not."""

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
    """Vectors of examples without a head: unit rows, float32 [N, D]."""

    in_memory: ClassVar[bool] = True
    vectors: TextVectors

    def load(self, run: Run, folder: Path) -> np.ndarray:
        return unit_rows(run.get(self.vectors))


@dataclass(frozen=True)
class HeadBlocks(Stage["np.ndarray | None"]):
    """A head's blocks of queries or examples, float32 [N, w]; None where no head was taken."""

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
    """The blocks of queries of the bank, taken from those of all of its rows."""

    in_memory: ClassVar[bool] = True
    blocks: Stage[np.ndarray | None]
    positions: np.ndarray

    def load(self, run: Run, folder: Path) -> np.ndarray | None:
        blocks = run.get(self.blocks)
        return None if blocks is None else blocks[self.positions]


@dataclass(frozen=True)
class HeadVectors(Stage[np.ndarray]):
    """Vectors of examples with a head: its blocks beside the encoder's cosines, unit rows float32
    [N, w + D]."""

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
    """The amounts that say what encoding some texts takes."""

    texts: int
    tokens: int
    """The padded tokens of a text."""
    parameters: int
    """Those of the loaded encoder."""


def text_facts(
    encoders: Stage[EncoderPair], view: RetrievalTexts, quantile: float, training: bool = False
) -> TextFacts:
    """Return what encoding retrieval texts takes.

    Args:
        encoders: the encoders, loaded or trained.
        view: the texts; the task's inputs stand in for those that an LM rewrites.
        quantile: a batch is padded to this quantile of the lengths of a sample.
        training: whether texts are padded as in training.
    """
    loaded = next(stage for stage in closure([encoders]) if isinstance(stage, LoadedEncoder))
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
