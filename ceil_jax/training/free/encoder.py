"""A trained free method as an encoder: its queries' side reads texts, its bank's side reads
examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ceil_jax.encoders.files import read_config
from ceil_jax.encoders.registry import FREE_FILE, load_encoder
from ceil_jax.encoders.text_encoder import TextEncoder
from ceil_jax.errors import UserError
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.store.folder import load_arrays, save_arrays, write_json
from ceil_jax.store.hashing import digest, text_digest
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.structures import Structures, bracketed, sql
from ceil_jax.training.fixed import Fixed
from ceil_jax.training.free.head import LabelHead
from ceil_jax.training.free.rows import FreeMethod, Observed
from ceil_jax.training.free.structures import StructureHead

KINDS: dict[str, type] = {kind.__name__: kind for kind in (LabelHead, StructureHead)}
PARSERS: dict[str, Structures] = {"bracketed": bracketed, "sql": sql}

SETTINGS, ARRAYS = FREE_FILE, "free.npz"


def are_pairs(bank: Sequence[Example]) -> bool:
    """Return whether every input is made of two texts; inputs of more are taken as they are
    joined."""
    return all(len(example.texts) == 2 for example in bank)


def observe(
    encoder: TextEncoder,
    examples: Sequence[Example],
    *,
    pairs: bool = False,
    parser: str = "",
    outputs: bool = True,
) -> Observed:
    """Return examples as free methods see them.

    Args:
        encoder: embeds their inputs and, with `pairs` (`are_pairs`), the two texts of each apart.
        examples: queries, whose `outputs` may not be seen, or examples of the bank.
        parser: a name in PARSERS, where outputs are programs.
    """
    texts = [example.input for example in examples]
    answers = [example.output for example in examples] if outputs else []
    parts = None
    if pairs:
        both = unit_rows(encoder.encode([text for example in examples for text in example.texts]))
        parts = both.reshape(len(examples), 2, -1)
    return Observed(
        texts,
        unit_rows(encoder.encode(texts)),
        parts,
        answers,
        [PARSERS[parser](answer) for answer in answers] if parser else (),
    )


@dataclass(frozen=True)
class FreeEncoder:
    """An encoder and a free method trained on its vectors; works without torch, an LM or the rows
    it has learnt from.

    A bank that is searched with it embeds examples by `encode_examples` and queries by `encode`;
    cosines rank as the method's relevance does.
    """

    base: TextEncoder
    method: FreeMethod
    network: TextEncoder | None = None
    """An encoder that gives the cosines beside the method in place of `base`: EPR or CEIL trained
    from this start."""
    parser: str = ""
    """A name in PARSERS, for a method that needs structures."""
    pairs: bool = False
    learnt: np.ndarray | None = None
    """uint64 [N]: the `marks` of the examples that the method has learnt from; None if that is not
    known."""
    cross_fitted: Mapping[str, np.ndarray] | None = None
    """The method's vectors of the bank's rows as queries, by id (`choice.cross_fitted_queries`), in
    the encoder that is asked with the bank's rows and with nothing else."""

    @property
    def name(self) -> str:
        """The base encoder's name and the method's."""
        return f"{self.base.name} + {type(self.method).__name__}"

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of what the encoders and the method are."""
        arrays, others = _fields(self.method)
        hashes = {
            name: text_digest(np.ascontiguousarray(one).tobytes()) for name, one in arrays.items()
        }
        base: Any = self.base
        above: Any = self.network
        own = [base.fingerprint, above and above.fingerprint]
        return digest([*own, type(self.method).__name__, hashes, others, self.parser])

    @property
    def dim(self) -> int:
        """The length D' of a vector."""
        blank = np.zeros((1, self.base.dim), np.float32)
        parts = np.stack([blank, blank], axis=1) if self.pairs else None
        return self.method.query(Observed([""], blank, parts)).shape[1]

    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
        """Return the vectors of queries, float32 [N, D']; a method that compares two texts refuses
        them."""
        return self.encode_queries([Example(str(i), text, "") for i, text in enumerate(texts)])

    def encode_queries(self, examples: Sequence[Example]) -> Float[np.ndarray, "n d"]:
        """Return the vectors of queries, float32 [N, D']; their outputs are not read.

        Raises:
            UserError: the method compares the two texts of an input, and a query has not two.
        """
        return self._with_cosines(self._queries(examples), examples)

    def encode_examples(self, examples: Sequence[Example]) -> Float[np.ndarray, "n d"]:
        """Return the vectors of bank examples, float32 [N, D']; their outputs are read."""
        return self._with_cosines(self._examples(examples), examples)

    def unseen(self, examples: Sequence[Example]) -> int:
        """Return how many examples of a bank the method has not learnt from, such as those added
        since."""
        return 0 if self.learnt is None else int((~np.isin(marks(examples), self.learnt)).sum())

    def fixed(self, queries: Sequence[Example], bank: Sequence[Example]) -> Fixed:
        """Return the method's part of the vectors, beside which a network's can learn."""
        width = -self.base.dim
        return Fixed(
            self._queries(queries)[:, :width],
            self._examples(bank)[:, :width],
            self.method.cosine_weight,
        )

    def _queries(self, examples: Sequence[Example]) -> np.ndarray:
        if self.cross_fitted is not None:
            return np.stack([self.cross_fitted[example.id] for example in examples])
        return self.method.query(self._observed(examples, outputs=False))

    def classify(self, queries: Sequence[Example]) -> list[str]:
        """Return the most probable label of each query, of a label head; no LM is asked."""
        method: Any = self.method
        return method.classify(self._observed(queries, outputs=False))

    def _examples(self, examples: Sequence[Example]) -> np.ndarray:
        return self.method.examples(self._observed(examples, parser=self.parser))

    def _observed(self, examples: Sequence[Example], **what: Any) -> Observed:
        if self.pairs and not are_pairs(examples):
            raise UserError(
                f"{self.name} compares the two texts of an input: give a query as "
                "Example(id, text, '', parts=(first, second))"
            )
        return observe(self.base, examples, pairs=self.pairs, **what)

    def _with_cosines(self, mapped: np.ndarray, examples: Sequence[Example]) -> np.ndarray:
        """The vectors with those of `network` in place of the base encoder's, which stand last in
        every method."""
        if self.network is None or not len(examples):
            return mapped
        own = unit_rows(self.network.encode([example.input for example in examples]))
        weight = np.sqrt(self.method.cosine_weight)
        return np.hstack([mapped[:, : -self.base.dim], weight * own]).astype(np.float32)

    def save_pretrained(self, folder: Path) -> None:
        """Write the method and its encoders into a folder: arrays as npz, settings as JSON."""
        self.save_method(folder)
        for name, encoder in (("base", self.base), ("network", self.network)):
            if encoder is not None and hasattr(encoder, "save_pretrained"):
                encoder.save_pretrained(folder / name)

    def save_method(self, folder: Path) -> None:
        """Write the method without its encoders."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays, others = _fields(self.method)
        learnt = {} if self.learnt is None else {"learnt": self.learnt}
        save_arrays(folder / ARRAYS, **arrays, **learnt)
        content = {
            "method": type(self.method).__name__,
            "settings": others,
            "base": "" if hasattr(self.base, "save_pretrained") else self.base.name,
            "parser": self.parser,
            "pairs": self.pairs,
        }
        write_json(folder / SETTINGS, content)

    @classmethod
    def from_pretrained(cls, folder: Path, base: TextEncoder | None = None) -> FreeEncoder:
        """Read what `save_pretrained` wrote, or `save_method` where `base` is given.

        Raises:
            UserError: the folder holds something else.
        """
        content = read_config(folder / SETTINGS)
        kind = KINDS.get(content.get("method", ""))
        if kind is None:
            raise UserError(
                f"{folder / SETTINGS}: method {content.get('method')!r}; expected one of {[*KINDS]}"
            )
        settings = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in content["settings"].items()
        }
        arrays = load_arrays(folder / ARRAYS)
        learnt = arrays.pop("learnt", None)
        method = kind(**settings, **arrays)
        network = load_encoder(folder / "network") if (folder / "network").is_dir() else None
        base = base or load_encoder(content["base"] or folder / "base")
        return cls(base, method, network, content["parser"], content["pairs"], learnt)


def marks(examples: Sequence[Example]) -> np.ndarray:
    """Return what examples are known by, uint64 [N]: a hash of input and output."""
    return np.array([int(digest([one.input, one.output]), 16) for one in examples], np.uint64)


def _fields(method: FreeMethod) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A method's arrays, and its other fields."""
    fields = vars(method)
    arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    return arrays, {name: value for name, value in fields.items() if name not in arrays}
