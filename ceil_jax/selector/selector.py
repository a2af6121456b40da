"""`CeilSelector`: a live bank, its encoders and λ behind one call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from ceil_jax.lm import LanguageModel
from ceil_jax.racing.budget import LM_TOKENS
from ceil_jax.selector.bank import Bank
from ceil_jax.selector.choice import choose
from ceil_jax.selector.folder.pickling import pack, unpack
from ceil_jax.selector.folder.pretrained import Pretrained
from ceil_jax.selector.options import Options, Settings
from ceil_jax.selector.rows import Keys, Row, read_examples, read_file, read_frame, read_queries
from ceil_jax.selector.selection import Selection
from ceil_jax.selector.tuned import KS, TRADE_OFFS, Tuned, tune
from ceil_jax.selector.vector_store import VectorStoreSelector
from ceil_jax.selector.vectors import Encodes, checked, embed, name_of
from ceil_jax.tasks.example import Example, context_text

QUERIES_AT_ONCE = 64
"""The number of queries that are scored against the bank in one matrix product."""


class CeilSelector(Pretrained):
    """Chooses in-context examples from a live bank by greedy MAP of the conditional DPP.

    Every method may be called from any thread: a selection sees the bank as it was when it began.

    Attributes:
        bank: the examples and their vectors.
        encoder: embeds the bank.
        query_encoder: embeds the queries; the same as `encoder` unless another one was given.
        trade_off and the other settings: see `options.Settings`.
    """

    @classmethod
    def from_examples(
        cls,
        examples: Iterable[Row],
        *,
        encoder: Encodes,
        query_encoder: Encodes | None = None,
        vectors: np.ndarray | None = None,
        **settings: Unpack[Settings],
    ) -> CeilSelector:
        """Make a selector from examples and an encoder; `pipeline.export.selector_of` makes trained ones.

        Args:
            examples: Examples or {"input": …, "output": …}; other keys than id, choices and references are
                metadata for filters and templates. Examples without an id get a number.
            encoder: embeds the bank, and the queries too unless `query_encoder` is given: a name, folder, hub id or
                address that `load_encoder` takes; an object with `encode(texts)`; LangChain embeddings; or a
                function from a list of texts to their vectors.
            query_encoder: likewise, for the queries.
            vectors: the vectors of the examples [N, D], where they are known already.
            settings: see `options.Settings`.

        Raises:
            UserError: a row that is no example, an id given twice, or vectors that do not fit.
        """
        # a bad row is refused before an encoder is loaded
        rows = read_examples(examples, Keys.of(settings))
        selector = cls(Bank([], np.zeros((0, 0), np.float32)), encoder, query_encoder, **settings)
        if vectors is None:
            selector.add(rows)
        else:
            selector.bank.add(rows, checked(vectors, selector._texts(rows), None, name_of(selector.encoder)))
        return selector

    @classmethod
    def from_csv(cls, file: str | os.PathLike[str], **more: Any) -> CeilSelector:
        """Make a selector from a file with one example a row: .csv, .jsonl, .json or .parquet, .gz too.

        Args:
            file: the file; columns other than `input_key`, `output_key`, id, choices and references are metadata.
            more: the other arguments of `from_examples`, `encoder` among them.

        Raises:
            UserError: no such file, or a row that is no example, named by its line.
        """
        return cls.from_examples(read_file(Path(file).expanduser(), Keys.of(more)), **more)

    @classmethod
    def from_dataframe(cls, frame: Any, **more: Any) -> CeilSelector:
        """Make a selector from a pandas or polars data frame with one example a row.

        Args:
            frame: the data frame; missing values leave a metadata field out, and numbers and dates become texts.
            more: the other arguments of `from_examples`, `encoder` among them.

        Raises:
            UserError: not a data frame, or a row that is no example, named by its number.
        """
        return cls.from_examples(read_frame(frame, Keys.of(more)), **more)

    @staticmethod
    def from_vector_store(store: Any, **more: Any) -> VectorStoreSelector:
        """Make a selector whose bank lives in a LangChain `VectorStore`; for the arguments see that class."""
        return VectorStoreSelector(store, **more)

    def with_examples(self, examples: Iterable[Row]) -> CeilSelector:
        """Return a selector of other examples, called input and output, with the same encoders and settings.

        The template is the default one, because this one may name fields that only these examples have.
        """
        of_these = ("template", "card", "input_key", "output_key")
        return type(self).from_examples(
            examples,
            encoder=self.encoder,
            query_encoder=self.query_encoder,
            **{name: value for name, value in vars(self.settings).items() if name not in of_these},
        )

    def __getstate__(self) -> dict[str, Any]:
        """Everything a pickle needs; functions among it must be picklable, so no lambda."""
        state = {**vars(self), "bank": self.bank.content()}
        state["encoder"] = pack(self.encoder)
        state["query_encoder"] = None if self.query_encoder is self.encoder else pack(self.query_encoder)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        encoder, query = unpack(state["encoder"]), unpack(state["query_encoder"])
        vars(self).update(state, bank=Bank(*state["bank"]), encoder=encoder, query_encoder=query or encoder)

    def __copy__(self) -> CeilSelector:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, Any]) -> CeilSelector:
        """A selector with a bank of its own; encoders never change and are shared."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self), bank=Bank(*self.bank.content()))
        memo[id(self)] = other
        return other

    def __len__(self) -> int:
        return len(self.bank)

    @property
    def examples(self) -> list[Example]:
        """The bank, in the order it was added."""
        return list(self.bank.view)

    def add(self, examples: Iterable[Row]) -> list[str]:
        """Embed examples, add them to the bank, and return their ids.

        Args:
            examples: as in `from_examples`.

        Raises:
            UserError: a row that is no example, or an id that is there already; nothing is added.
        """
        rows = read_examples(examples, self.settings.keys)
        # encoding takes long and comes first: the bank's lock is held for the appending alone
        return self.bank.add(rows, embed(self.encoder, self._texts(rows), self.bank.view.dim))

    def remove(self, ids: str | Iterable[str]) -> None:
        """Remove examples from the bank.

        Args:
            ids: an id, or several.

        Raises:
            UserError: an id that is not there; nothing is removed.
        """
        self.bank.remove([ids] if isinstance(ids, str) else ids)

    def tune(
        self,
        rows: Iterable[Row] | None = None,
        *,
        lm: LanguageModel | str,
        metric: str = "accuracy",
        ks: Sequence[int] = KS,
        trade_offs: Sequence[float] = TRADE_OFFS,
        lm_tokens: int = LM_TOKENS,
        seed: int = 0,
    ) -> Tuned:
        """Choose k and λ by the LM's answers to labelled rows: `tuned.selector.select(query, k=tuned.k)`.

        Settings race on half of the rows; the winner, the cheapest within noise of it, this selector with k = 8 and
        no examples are compared on the other half. Recommended is the cheapest that is not certainly worse.
        `ceil-jax tune` searches methods too, and writes a page.

        Args:
            rows: labelled rows that are not in the bank, at least 40; by default the bank's own, each of which is
                left out when examples are chosen for it (give rows if the bank holds copies).
            lm: the language model, or a name that `load_lm` takes.
            metric: a name in METRICS; with "accuracy" the LM chooses among the different outputs, else it writes up
                to a line's end.
            ks: numbers of examples, (2, 4, 8, 16) by default.
            trade_offs: λ, (0.01, 0.03, 0.1, 0.3) by default.
            lm_tokens: the most LM tokens to spend, 1,000,000 by default.
            seed: divides the rows.

        Raises:
            UserError: too few rows or one output only; too small a budget; an LM that answers nothing rightly.
        """
        asked = None if rows is None else read_examples(rows, self.settings.keys)
        return tune(self, asked, lm, metric, ks, trade_offs, lm_tokens, seed)

    def select_many(self, queries: Sequence[str | Row], **options: Unpack[Options]) -> list[Selection]:
        """`select` for each query, all with the bank as it was at the start; they are encoded together."""
        asked = read_queries(queries, self.settings.keys)
        request = self.request(options)
        view = self.bank.view
        vectors = embed(self.query_encoder, [query.input for query in asked], view.dim)
        selections = []
        for start in range(0, len(asked), QUERIES_AT_ONCE):
            block = slice(start, start + QUERIES_AT_ONCE)
            for query, cosines in zip(asked[block], view.cosines(vectors[block]), strict=True):
                selections.append(choose(view, query, cosines, request))
        return selections

    def _texts(self, rows: Iterable[Example]) -> list[str]:
        return [context_text(row, self.context) for row in rows]
