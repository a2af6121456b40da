"""A trained head on an encoder's vectors, as an encoder of examples. For queries it reads inputs,
for bank examples also outputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.files import read_config
from ceil_jax.encoders.registry import FREE_FILE, load_encoder
from ceil_jax.encoders.text_encoder import EncoderPair, TextEncoder
from ceil_jax.errors import UserError
from ceil_jax.registry import Registry
from ceil_jax.store.folder import load_arrays, save_arrays, write_json
from ceil_jax.store.hashing import digest, text_digest
from ceil_jax.store.places import user_path
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.structures import Structures, bracketed, sql
from ceil_jax.training.free.head import LabelHead
from ceil_jax.training.free.rows import Head, Observations, beside
from ceil_jax.training.free.structures import StructureHead

HEADS: Registry[type] = Registry("head")
"""The classes of heads by name, as written in the folder of a saved head."""

PARSERS: dict[str, Structures] = {"bracketed": bracketed, "sql": sql}

SETTINGS = FREE_FILE
ARRAYS = "free.npz"


def register_head(kind: type, *, replace: bool = False) -> None:
    """Register a class of heads, so that saved heads of it can be loaded.

    Args:
        kind: a frozen dataclass with `cosine_weight`, `query_block` and `example_block`
            (`rows.Head`). Its fields are arrays, JSON values, or tuples of JSON values.
        replace: whether a class of the same name is replaced; refused by default.

    Raises:
        UserError: the name is taken.
    """
    HEADS.register(kind.__name__, kind, replace=replace)


for _kind in (LabelHead, StructureHead):
    register_head(_kind)


def open_encoder(name_or_path: str | os.PathLike[str]) -> TextEncoder | FreeEncoder:
    """Load an encoder as `load_encoder` does, or a trained head with its encoders from its
    folder."""
    folder = user_path(name_or_path)
    if (folder / SETTINGS).is_file():
        return FreeEncoder.from_pretrained(folder)
    return load_encoder(name_or_path)


def are_pairs(bank: Sequence[Example]) -> bool:
    """Return whether every input is joined from exactly two texts."""
    return all(len(example.texts) == 2 for example in bank)


def check_pairs(examples: Sequence[Example]) -> None:
    """Raise a UserError unless every input is joined from two texts."""
    if not are_pairs(examples):
        raise UserError(
            "the encoder compares the two texts of an input: give a query as "
            "Example(id, text, '', parts=(first, second))"
        )


def observe(
    encoder: TextEncoder,
    examples: Sequence[Example],
    *,
    pairs: bool = False,
    parser: str = "",
    outputs: bool = True,
) -> Observations:
    """Return examples as inputs of heads.

    Args:
        encoder: embeds the inputs and, with `pairs`, also the two texts of each input separately.
        examples: queries, or examples of the bank.
        pairs: whether every input is joined from two texts.
        parser: a name in PARSERS if outputs are programs; "" otherwise.
        outputs: whether outputs are read; False for queries.
    """
    texts = [example.input for example in examples]
    parts = None
    if pairs:
        parts = encoder.encode([text for example in examples for text in example.texts])
    return observations(examples, encoder.encode(texts), parts, parser=parser, outputs=outputs)


def observations(
    examples: Sequence[Example],
    vectors: Float[np.ndarray, "n d"],
    parts: Float[np.ndarray, "two_n d"] | None,
    *,
    parser: str,
    outputs: bool,
) -> Observations:
    """Return examples as inputs of heads, from their vectors; see `observe`.

    Args:
        examples: queries, or examples of the bank.
        vectors: the vector of each input.
        parts: the vectors of the two texts of each input, in order; None if inputs are taken whole.
        parser: a name in PARSERS if outputs are programs; "" otherwise.
        outputs: whether the outputs are read; False for queries.
    """
    answers = [example.output for example in examples] if outputs else []
    return Observations(
        texts=[example.input for example in examples],
        vectors=unit_rows(vectors),
        parts=None if parts is None else unit_rows(parts).reshape(len(examples), 2, -1),
        outputs=answers,
        structures=[PARSERS[parser](answer) for answer in answers] if parser else (),
    )


@dataclass(frozen=True)
class FreeEncoder:
    """An encoder with a head trained on its vectors. It works without torch, an LM or the rows that
    it was trained on.

    Cosines between `encode_queries` and `encode_bank` rank examples by the head's relevance.
    """

    base: TextEncoder
    head: Head
    networks: EncoderPair | None = None
    """Networks whose vectors stand beside the head's blocks in place of those of `base`: EPR or
    CEIL trained from this start."""
    parser: str = ""
    """A name in PARSERS for a head that reads structures; "" for others."""
    pairs: bool = False
    learnt: np.ndarray | None = None
    """uint64 [N]: the `marks` of the examples that the head was trained on; None if unknown."""

    @property
    def name(self) -> str:
        """The names of the base encoder and of the head."""
        return f"{self.base.name} + {type(self.head).__name__}"

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits that identify the encoders and the head."""
        arrays, others = _fields(self.head)
        hashes = {
            name: text_digest(np.ascontiguousarray(array).tobytes())
            for name, array in arrays.items()
        }
        encoders: list[Any] = [self.base, *(self.networks or ())]
        weights = [encoder.fingerprint for encoder in encoders]
        return digest([*weights, type(self.head).__name__, hashes, others, self.parser])

    @property
    def dim(self) -> int:
        """The length of a vector, w + D."""
        blank = np.zeros((1, self.base.dim), np.float32)
        parts = np.stack([blank, blank], axis=1) if self.pairs else None
        block = self.head.query_block(Observations([""], blank, parts))
        return block.shape[1] + self.base.dim

    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
        """Return the vectors of queries that are plain texts, float32 [N, w + D]. A UserError if
        the head compares the two texts of an input."""
        return self.encode_queries([Example(str(i), text, "") for i, text in enumerate(texts)])

    def encode_queries(self, queries: Sequence[Example]) -> Float[np.ndarray, "n d"]:
        """Return the vectors of queries, float32 [N, w + D]; their outputs are not read.

        Raises:
            UserError: the head compares the two texts of an input, and a query does not have two.
        """
        rows = self._observed(queries, outputs=False)
        unit_vectors = rows.vectors
        if self.networks is not None and len(queries):
            unit_vectors = unit_rows(self.networks.encode_queries(queries))
        return beside(self.head.query_block(rows), unit_vectors, self.head.cosine_weight)

    def encode_bank(self, examples: Sequence[Example]) -> Float[np.ndarray, "n d"]:
        """Return the vectors of bank examples, float32 [N, w + D]; their outputs are read."""
        rows = self._observed(examples, outputs=True)
        unit_vectors = rows.vectors
        if self.networks is not None and len(examples):
            unit_vectors = unit_rows(self.networks.encode_bank(examples))
        return beside(self.head.example_block(rows), unit_vectors, self.head.cosine_weight)

    def classify(self, queries: Sequence[Example]) -> list[str]:
        """Return the most probable label of each query, without an LM.

        Raises:
            UserError: the head is not a label head.
        """
        return classified(self.head, self._observed(queries, outputs=False))

    def unseen(self, examples: Sequence[Example]) -> int:
        """Return how many examples of a bank the head was not trained on, such as those added
        later."""
        return 0 if self.learnt is None else int((~np.isin(marks(examples), self.learnt)).sum())

    def _observed(self, examples: Sequence[Example], outputs: bool) -> Observations:
        if self.pairs:
            check_pairs(examples)
        parser = self.parser if outputs else ""
        return observe(self.base, examples, pairs=self.pairs, parser=parser, outputs=outputs)

    def save_pretrained(self, folder: Path) -> None:
        """Write the head and its encoders into a folder: arrays as npz, settings as JSON."""
        self.save_head(folder)
        encoders: dict[str, Any] = {"base": self.base}
        if self.networks is not None:
            encoders["network"] = self.networks.bank
            if self.networks.query is not self.networks.bank:
                encoders["query_network"] = self.networks.query
        for name, encoder in encoders.items():
            if hasattr(encoder, "save_pretrained"):
                encoder.save_pretrained(folder / name)

    def save_head(self, folder: Path) -> None:
        """Write the head without the encoders."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays, others = _fields(self.head)
        learnt = {} if self.learnt is None else {"learnt": self.learnt}
        save_arrays(folder / ARRAYS, **arrays, **learnt)
        content = {
            "method": type(self.head).__name__,
            "settings": others,
            # an encoder that can be saved has a folder of its own
            "base": "" if hasattr(self.base, "save_pretrained") else self.base.name,
            "parser": self.parser,
            "pairs": self.pairs,
        }
        write_json(folder / SETTINGS, content)

    @classmethod
    def from_pretrained(cls, folder: Path, base: TextEncoder | None = None) -> FreeEncoder:
        """Load what `save_pretrained` wrote, or what `save_head` wrote if `base` is given.

        Raises:
            UserError: the folder holds something else.
        """
        content = read_config(folder / SETTINGS)
        name = content.get("method", "")
        if name not in HEADS:
            raise UserError(
                f"{folder / SETTINGS}: method {name!r}; expected one of {', '.join(HEADS)}: import "
                "the module that registers it first"
            )
        kind = HEADS[name]
        settings = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in content["settings"].items()
        }
        arrays = load_arrays(folder / ARRAYS)
        learnt = arrays.pop("learnt", None)
        networks = None
        if (folder / "network").is_dir():
            bank = load_encoder(folder / "network")
            query_folder = folder / "query_network"
            networks = EncoderPair(
                load_encoder(query_folder) if query_folder.is_dir() else bank, bank
            )
        base = base or load_encoder(content["base"] or folder / "base")
        head = kind(**settings, **arrays)
        return cls(base, head, networks, content["parser"], content["pairs"], learnt)


def classified(head: Head, rows: Observations) -> list[str]:
    """Return the most probable label of each query by a label head.

    Raises:
        UserError: it is not a label head.
    """
    if not isinstance(head, LabelHead):
        raise UserError(f"a {type(head).__name__} does not classify; a label head does")
    return head.classify(rows)


def marks(examples: Sequence[Example]) -> np.ndarray:
    """Return a hash of the input and output of each example, uint64 [N]."""
    return np.array(
        [int(digest([example.input, example.output]), 16) for example in examples], np.uint64
    )


def _fields(head: Head) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A head's arrays, and its other fields."""
    fields = vars(head)
    arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    return arrays, {name: value for name, value in fields.items() if name not in arrays}
