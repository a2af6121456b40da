"""A trained head on an encoder's vectors, as an encoder of examples.

For queries it reads inputs, for bank examples also outputs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from jaxtyping import Float
from pydantic import with_config

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.registry import FREE_FILE, load_encoder, read_encoder
from ceil_jax.encoders.text_encoder import EncoderPair, TextEncoder
from ceil_jax.errors import UserError
from ceil_jax.registry import Registry
from ceil_jax.store.folder import save_arrays, write_json
from ceil_jax.store.hashing import digest, text_digest
from ceil_jax.store.opened import STRICT, Files, Title, checked, titled
from ceil_jax.store.places import user_path
from ceil_jax.tasks.bank import are_pairs
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.structures import PARSERS
from ceil_jax.training.free.head import LabelHead
from ceil_jax.training.free.rows import Head, Observations, beside
from ceil_jax.training.free.structures import StructureHead

HEADS: Registry[type] = Registry("head")
"""The classes of heads by name, as written in the folder of a saved head."""

SETTINGS = FREE_FILE
ARRAYS = "free.npz"


def register_head(kind: type, *, replace: bool = False) -> None:
    """Register a class of heads, so that saved heads of it can be loaded.

    Args:
        kind: a frozen dataclass with `cosine_weight`, `query_block` and `example_block`
            (`rows.Head`). Its fields are arrays, annotated `np.ndarray` or by jaxtyping, JSON
            values, or tuples of JSON values.
        replace: whether a class of the same name is replaced; refused by default.

    Raises:
        UserError: the name is taken.
    """
    HEADS.register(kind.__name__, kind, replace=replace)


for _kind in (LabelHead, StructureHead):
    register_head(_kind)


def open_encoder(name_or_path: str | os.PathLike[str]) -> TextEncoder | FreeEncoder:
    """Load an encoder, or a trained head with its encoders from its folder.

    An encoder is loaded as `load_encoder` does.
    """
    folder = user_path(name_or_path)
    if (folder / SETTINGS).is_file():
        return FreeEncoder.from_pretrained(folder)
    return load_encoder(name_or_path)


def opened_encoder(
    files: Files, name: str, base: TextEncoder | None = None
) -> TextEncoder | FreeEncoder:
    """Return the encoder in an open folder, under the given name.

    If the folder holds a trained head, return the head with its encoders; `base`, if given, is the
    encoder below the head.
    """
    if SETTINGS in files:
        return FreeEncoder.opened(files, base)
    return read_encoder(files, name)


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
    """An encoder with a head trained on its vectors.

    It works without torch, an LM or the rows that it was trained on.

    Cosines between `encode_queries` and `encode_bank` rank examples by the head's relevance.
    """

    base: TextEncoder
    head: Head
    networks: EncoderPair | None = None
    """Networks whose vectors are concatenated with the head's blocks in place of those of `base`:
    EPR or CEIL trained from this start."""
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
        return self.head.query_block(self._blank()).shape[1] + self.base.dim

    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
        """Return the vectors of queries that are plain texts, float32 [N, w + D].

        A UserError if the head compares the two texts of an input.
        """
        return self.encode_queries([Example(str(i), text, "") for i, text in enumerate(texts)])

    def encode_queries(
        self, queries: Sequence[Example], *, unlearnt: bool = False
    ) -> Float[np.ndarray, "n d"]:
        """Return the vectors of queries, float32 [N, w + D]; their outputs are not read.

        Args:
            queries: N queries.
            unlearnt: whether the bank has labels that a label head has not learnt. Their examples
                then count as those of the query's likeliest label, so that similarity alone ranks
                them among these.

        Raises:
            UserError: the head compares the two texts of an input, and a query does not have two.
        """
        rows = self._observed(queries, outputs=False)
        block = self.head.query_block(rows)
        if unlearnt:
            block[:, -1] = block.max(axis=1)
        unit_vectors = rows.vectors
        if self.networks is not None and len(queries):
            unit_vectors = unit_rows(self.networks.encode_queries(queries))
        return beside(block, unit_vectors, self.head.cosine_weight)

    def encode_bank(self, examples: Sequence[Example]) -> Float[np.ndarray, "n d"]:
        """Return the vectors of bank examples, float32 [N, w + D]; their outputs are read."""
        rows = self._observed(examples, outputs=True)
        unit_vectors = rows.vectors
        if self.networks is not None and len(examples):
            unit_vectors = unit_rows(self.networks.encode_bank(examples))
        return beside(self.head.example_block(rows), unit_vectors, self.head.cosine_weight)

    def probabilities(self, queries: Sequence[Example]) -> Float[np.ndarray, "n labels"]:
        """Return P(label | query) for each label of a label head, without an LM."""
        assert isinstance(self.head, LabelHead), "only a label head has them"
        return self.head.probabilities(self._observed(queries, outputs=False))

    def labels_not_learnt(self, outputs: Iterable[str]) -> list[str]:
        """Return those of some outputs that a label head has not learnt, sorted.

        For a head of another kind there are none.
        """
        if not isinstance(self.head, LabelHead):
            return []
        return sorted({*outputs} - {*self.head.labels})

    def unseen(self, examples: Sequence[Example]) -> int:
        """Return the number of examples of a bank that the head was not trained on.

        Such examples may have been added later.
        """
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
        content = _Saved(
            type(self.head).__name__, others, titled(self.base.name), self.parser, self.pairs
        )
        write_json(folder / SETTINGS, vars(content))

    @classmethod
    def from_pretrained(cls, folder: Path, base: TextEncoder | None = None) -> FreeEncoder:
        """Load an encoder that `save_pretrained` wrote, or one from `save_head` if `base` is given.

        Raises:
            UserError: the folder holds something else.
        """
        with Files(folder) as files:
            return cls.opened(files, base)

    @classmethod
    def opened(cls, files: Files, base: TextEncoder | None = None) -> FreeEncoder:
        """Load a head with its encoders from an open folder, as `from_pretrained` does."""
        file = files.path(SETTINGS)
        saved = files.json(SETTINGS, _Saved)
        if saved.method not in HEADS:
            raise UserError(
                f"{file}: method {saved.method[:40]!r}; expected one of {', '.join(HEADS)}: import "
                "the module that registers it first"
            )
        if saved.parser and saved.parser not in PARSERS:
            raise UserError(f"{file}: parser {saved.parser[:40]!r}; expected one of {[*PARSERS]}")
        if base is None and "base" not in files:
            raise UserError(
                f"{files.path()} holds a head without its encoder, {saved.base[:80]!r}; give "
                "it: CeilSelector.from_pretrained(folder, encoder=…)"
            )
        base = base or read_encoder(files.inside("base"), saved.base or "base")
        networks = None
        if "network" in files:
            bank = read_encoder(files.inside("network"), "network")
            query = bank
            if "query_network" in files:
                query = read_encoder(files.inside("query_network"), "query_network")
            networks = EncoderPair(query, bank)
        head, learnt = _read_head(files, saved)
        encoder = cls(base, head, networks, saved.parser, saved.pairs, learnt)
        encoder._check(file)
        return encoder

    def _check(self, file: Path) -> None:
        """Raise a UserError unless the head maps the encoder's vectors to finite ones of one length."""
        rows = self._blank()
        try:
            with np.errstate(all="ignore"):
                blocks = self.head.query_block(rows), self.head.example_block(rows)
                query, example = (
                    beside(block, rows.vectors, self.head.cosine_weight) for block in blocks
                )
        except Exception as error:  # any error of a head's own maths
            reason = str(error).partition("\n")[0]
            raise UserError(f"{file}: the head does not fit its encoder ({reason:.160})") from None
        if query.shape != example.shape or not np.isfinite([query, example]).all():
            raise UserError(f"{file}: the head does not fit its encoder, or has no finite numbers")

    def _blank(self) -> Observations:
        """A row with an empty input, from which the length of vectors is found."""
        vectors = np.zeros((1, self.base.dim), np.float32)
        parts = np.stack([vectors, vectors], axis=1) if self.pairs else None
        return Observations([""], vectors, parts, [""], [frozenset()])


@with_config(STRICT)
@dataclass
class _Saved:
    """The content of SETTINGS."""

    method: str
    """The name of the head's class, in HEADS."""
    settings: dict[str, Any]
    """The fields of the head that are not arrays."""
    base: Title = ""
    """The name of the encoder below it, for messages."""
    parser: str = ""
    pairs: bool = False


def _read_head(files: Files, saved: _Saved) -> tuple[Head, np.ndarray | None]:
    """The saved head, and the marks of the examples that it was trained on."""
    kind = HEADS[saved.method]
    hints = get_type_hints(kind)
    arrays = [
        name
        for name, hint in hints.items()
        if hint is np.ndarray or getattr(hint, "array_type", None) is np.ndarray
    ]
    file = files.path(SETTINGS)
    fields: dict[str, Any] = {}
    for name, value in saved.settings.items():
        if name not in hints or name in arrays:
            raise UserError(f"{file}: {saved.method} has no setting {name[:40]!r}")
        fields[name] = checked(json.dumps(value).encode(), hints[name], f"{file}, {name!r}")
    fields |= files.arrays(ARRAYS, [*arrays, "learnt"])
    learnt = fields.pop("learnt", None)
    for name in arrays:
        if name in fields and fields[name].dtype.kind not in "biuf":
            found = f"{fields[name].dtype}"
            raise UserError(f"{files.path(ARRAYS)}, {name!r}: expected numbers, found {found:.40}")
    if learnt is not None and learnt.dtype != np.uint64:
        raise UserError(f"{files.path(ARRAYS)}, 'learnt': expected uint64, found {learnt.dtype}")
    labels = fields.get("labels", ())
    if len({*labels}) < len(labels):
        raise UserError(f"{file}, 'labels': expected different labels, found {labels!r:.80}")
    try:
        return kind(**fields), learnt
    except TypeError as error:  # a field is missing
        raise UserError(f"{file}: {error}; save it again") from None


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
