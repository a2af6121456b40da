"""`CeilSelector`, the example selector for applications.

It has a bank that can change, its encoders and settings, and one call, `select`.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, Self, Unpack

import numpy as np

from ceil_jax.encoders.example_encoder import example_encoder
from ceil_jax.errors import UserError, check_options
from ceil_jax.lm.prompts import Prompt
from ceil_jax.selector.bank import Bank
from ceil_jax.selector.choice import select_from
from ceil_jax.selector.filters import of_this_bank
from ceil_jax.selector.folder import download, load_selector, save_selector
from ceil_jax.selector.rows import ExampleLike, as_examples, table_examples
from ceil_jax.selector.saved import name_of
from ceil_jax.selector.selection import Selection
from ceil_jax.selector.settings import (
    CallSettings,
    FromExamples,
    Options,
    SettingOptions,
    Settings,
    check_names,
)
from ceil_jax.selector.vectors import (
    Encodes,
    as_encoders,
    embed,
    kept_vectors,
    unit_vectors,
)
from ceil_jax.store.places import user_path
from ceil_jax.tasks.example import Example, context_text
from ceil_jax.tasks.tables import TableLike

log = logging.getLogger(__name__)

SAME = 0.01
"""The largest difference in a component of a unit vector that counts as rounding, as between two
devices."""


class CeilSelector(Settings):
    """A selector of in-context examples from a bank that can change.

    By default it takes the nearest; with `trade_off`, a set by greedy MAP of the conditional DPP.

    Relevance and similarity are (1 + cosine) / 2 of the encoders' vectors, which may have any norm.
    Vectors of queries and of examples may come from different encoders with the same dimension.
    Methods may be called from any thread: a selection uses the bank as it was when the call began.

    Attributes:
        bank: the examples and their vectors.
        encoder: embeds the bank.
        query_encoder: embeds the queries; the same as `encoder` by default.
        trade_off and the other settings: see `settings.Settings`.

    Examples:
        >>> rows = [
        ...     {"input": "a dull film", "output": "bad"},
        ...     {"input": "great fun", "output": "good"},
        ...     {"input": "a slow film", "output": "bad"},
        ... ]
        >>> selector = CeilSelector.from_examples(rows, encoder="tiny")
        >>> [example.output for example in selector.select("a dull evening", k=2)]
        ['bad', 'bad']
        >>> selector.add([{"input": "a warm film", "output": "good"}])
        ['bank-3']
        >>> len(selector)
        4
    """

    def __init__(
        self,
        bank: Bank,
        encoder: Encodes,
        query_encoder: Encodes | None = None,
        **settings: Unpack[SettingOptions],
    ) -> None:
        check_names("CeilSelector", settings, Settings)
        untyped: dict[str, Any] = {**settings}  # a type checker cannot match its keys to the fields
        super().__init__(**untyped)
        self.bank = bank
        self.encoder, query_side = as_encoders(encoder)
        self.query_encoder: Any = (
            query_side if query_encoder is None else as_encoders(query_encoder)[1]
        )
        self._bank_side = example_encoder(self.encoder)
        self._query_side = example_encoder(self.query_encoder)
        self._has_warned = False
        self._unlearnt = bool(self._labels_not_learnt(bank.snapshot))
        """Whether the bank has labels that the encoder's head was not trained on."""

    @classmethod
    def from_examples(
        cls,
        examples: Iterable[ExampleLike],
        *,
        encoder: Encodes,
        query_encoder: Encodes | None = None,
        vectors: np.ndarray | None = None,
        **settings: Unpack[SettingOptions],
    ) -> Self:
        """Make a selector from examples and an encoder.

        For a trained one see `pipeline.export.selector_of`.

        Args:
            examples: Examples or {"input": …, "output": …}. Keys other than id, choices and
                references are metadata for filters and templates. Examples without an id get one.
            encoder: embeds the bank, and the queries too unless `query_encoder` is given: a name,
                folder, hub id or address that `load_encoder` takes; an object with `encode(texts)`
                or with `encode_bank(examples)` and `encode_queries(queries)`; LangChain embeddings; or a function
                from a list of texts to vectors.
            query_encoder: likewise, for the queries.
            vectors: the vectors of the examples [N, D], if they are already known.
            settings: see `settings.Settings`.

        Raises:
            UserError: a row is not an example, an id is repeated, vectors or a setting do not fit,
                or a setting is unknown.

        Examples:
            >>> bank = [
            ...     {"input": "a fine film", "output": "good"},
            ...     {"input": "a dull film", "output": "bad"},
            ... ]
            >>> selector = CeilSelector.from_examples(bank, encoder="tiny")
            >>> [example.output for example in selector.select("a dull play", k=1)]
            ['bad']
        """
        check_names("from_examples", settings, Settings)
        # a bad row is refused before an encoder is loaded
        values: dict[str, Any] = {**settings}
        rows = as_examples(examples, Settings(**values).columns)
        bank = Bank([], np.zeros((0, 0), np.float32))
        selector = cls(bank, encoder, query_encoder, **settings)
        selector._add(bank, rows, vectors)
        return selector

    @classmethod
    def from_csv(
        cls,
        file: TableLike,
        *,
        delimiter: str | None = None,
        encoding: str = "utf-8",
        skip_bad_rows: bool = False,
        **more: Unpack[FromExamples],
    ) -> Self:
        """Make a selector from a file with one example per row.

        The file is .csv, .tsv, .jsonl, .json or .parquet, also compressed (`tasks.tables`).

        Args:
            file: the file; columns other than `input_key`, `output_key`, id, choices and references
                are metadata.
            delimiter: the character between values; by default the one that the header shows.
            encoding: the encoding of a text file.
            skip_bad_rows: whether rows that are not examples are left out, with a warning that
                lists them; refused by default.
            more: the other arguments of `from_examples`, `encoder` among them.

        Raises:
            UserError: the file does not exist, or a row is not an example; the message names its
                line.
        """
        names = {field.name for field in fields(Settings)}
        check_options("from_csv", more, FromExamples.__annotations__)
        options: dict[str, Any] = {**more}
        columns = Settings(**{name: options[name] for name in options if name in names}).columns
        rows = table_examples(file, columns, delimiter, encoding, skip_bad_rows=skip_bad_rows)
        vectors = more.pop("vectors", None)
        selector = cls.from_examples([], **more)
        if vectors is None:
            texts = [context_text(row, selector.context) for row in rows]
            vectors = kept_vectors(selector._bank_side, texts)
        selector._add(selector.bank, as_examples(rows, selector.columns), vectors)
        return selector

    @classmethod
    def from_dataframe(cls, frame: Any, **more: Unpack[FromExamples]) -> Self:
        """Make a selector from a pandas or polars data frame; see `from_csv`.

        Missing values give no metadata field.
        """
        return cls.from_csv(frame, **more)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | os.PathLike[str],
        *,
        encoder: Encodes | None = None,
        query_encoder: Encodes | None = None,
        **settings: Unpack[SettingOptions],
    ) -> Self:
        """Load a selector from a folder that `save_pretrained` wrote.

        The sha256 of every file is checked, and the vectors are memory-mapped.

        A folder is data: nothing in it names code, an address or another folder. An encoder of your
        own is given here, or registered before (`register_encoder`).

        Args:
            folder: a folder, or a Hugging Face hub id.
            encoder: as in `from_examples`, in place of the saved one. It is needed if that could not
                be saved, such as a function or one behind a server; for a trained head, it may be the
                encoder below the head.
            query_encoder: likewise, for the queries.
            settings: see `settings.Settings`; they replace the saved ones.

        Raises:
            UserError: the folder does not exist; a file is missing, damaged or of another save; an
                encoder is not registered or not given, or is not the one that embedded the bank.
        """
        path = user_path(folder)
        path = path if path.is_dir() else download(os.fspath(folder))
        given: dict[str, Any] = {}
        if encoder is not None:
            given["encoder"], query_side = as_encoders(encoder)
            if query_side is not given["encoder"]:  # LangChain's, which have two sides
                given["query_encoder"] = query_side
        if query_encoder is not None:
            given["query_encoder"] = as_encoders(query_encoder)[1]
        saved = load_selector(path, given)
        selector = cls(saved.bank, **saved.encoders, **{**saved.settings, **settings})
        if given:
            selector._check_encoder()
        return selector

    def _check_encoder(self) -> None:
        """Raise a UserError if the encoder gives another vector of the first example than is saved."""
        bank = self.bank.snapshot
        for example in bank.examples[:1]:
            vector = self._embedded([example], bank.dim)[0]
            if np.abs(vector - bank.vectors[0]).max() > SAME:
                raise UserError(
                    f"encoder {name_of(self.encoder)} gives another vector of {example.id!r} than was "
                    "saved; give the one that embedded the bank"
                )

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder for `from_pretrained`: JSON, npy, safetensors and a model card.

        An encoder that has no method `save_pretrained` is left out, and has to be given when it is
        loaded.

        A selector in the folder is replaced in one step: after a crash, the folder holds either the
        old one or the new one, complete. `hf upload owner/name folder` shares it.

        Raises:
            UserError: the folder cannot be written, or holds something else.
        """
        # in this order, an id may be skipped but is never used twice
        snapshot = self.bank.snapshot
        next_id = self.bank.next_id
        encoders = {"encoder": self.encoder}
        if self.query_encoder is not self.encoder:
            encoders["query_encoder"] = self.query_encoder
        save_selector(user_path(folder), snapshot, next_id, encoders, self.settings)

    @classmethod
    def over(
        cls, examples: Iterable[ExampleLike], selector_or_encoder: CeilSelector | Encodes
    ) -> Self:
        """Return a selector over other examples, with the encoders and settings of a selector.

        The examples' keys are `input` and `output`. The template is the default, and nothing is
        balanced or fixed, because those settings may name fields and ids that the examples lack. If
        an encoder is given instead of a selector, all settings are the defaults.
        """
        if not isinstance(selector_or_encoder, CeilSelector):
            return cls.from_examples(examples, encoder=selector_or_encoder)
        of_these = ("template", "system", "card", "input_key", "output_key", "balance", "fixed")
        settings = {
            name: value
            for name, value in selector_or_encoder.settings.items()
            if name not in of_these
        }
        encoders = {
            "encoder": selector_or_encoder.encoder,
            "query_encoder": selector_or_encoder.query_encoder,
        }
        return cls.from_examples(examples, **encoders, **settings)

    def __copy__(self) -> Self:
        """A copy with its own bank, which shares the vectors and the encoders."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self), bank=copy.copy(self.bank))
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The same as `copy.copy`, whose copies are already independent."""
        return copy.copy(self)

    def __len__(self) -> int:
        return len(self.bank)

    def __bool__(self) -> bool:
        """Return True, also for an empty bank."""
        return True

    @property
    def examples(self) -> list[Example]:
        """The examples of the bank, in the order in which they were added."""
        return list(self.bank.snapshot)

    @property
    def layout(self) -> Prompt:
        """The form of prompts, with the bank's labels in the instruction."""
        return self.written(lambda: self.bank.snapshot.labels)

    @property
    def unseen(self) -> int | None:
        """The number of examples that the encoder's head was not trained on.

        Such examples may have been added after the export; they are ranked like all others. None
        for encoders without a head.
        """
        count = getattr(self.encoder, "unseen", None)
        return None if count is None else count(self.examples)

    def add(self, examples: Iterable[ExampleLike]) -> list[str]:
        """Embed examples, add them to the bank, and return the id of each; see `from_examples`.

        Examples that are in the bank already, with the same input, output, fields and, if they have
        one, id, are left out and counted in a log line; their ids are those in the bank. Examples of a label that the
        encoder's head has not learnt are ranked by the similarity of inputs alone.

        Raises:
            UserError: a row is not an example, or its id is that of another example of the bank;
                nothing is encoded or added.
        """
        bank = self.bank
        rows = as_examples(examples, self.columns)
        known = bank.known(rows)
        new = [row for row, id in zip(rows, known, strict=True) if id is None]
        if len(new) < len(rows):
            log.warning(
                "%d of %d examples are in the bank already and were left out",
                len(rows) - len(new),
                len(rows),
            )
        added = iter(self._add(bank, new))
        return [next(added) if id is None else id for id in known]

    def _add(self, bank: Bank, rows: list[Example], vectors: np.ndarray | None = None) -> list[str]:
        # encoding takes long and comes first, so that the bank's lock is held only for appending
        if vectors is None:
            vectors = self._embedded(rows, bank.snapshot.dim)
        else:
            texts = [context_text(row, self.context) for row in rows]
            vectors = unit_vectors(vectors, texts, None, self.encoder)
        ids = bank.add(rows, vectors)
        if labels := self._labels_not_learnt(rows):
            self._unlearnt = True
            listed = ", ".join(repr(label)[:40] for label in labels[:5])
            log.warning(
                "the encoder's head was not trained on %s%s: their examples are ranked by "
                "similarity alone until it is fitted again, which needs no LM calls (ceil-jax "
                "export)",
                listed,
                ", …" if len(labels) > 5 else "",
            )
        return ids

    def _labels_not_learnt(self, examples: Iterable[Example]) -> list[str]:
        not_learnt = getattr(self.query_encoder, "labels_not_learnt", None)
        return [] if not_learnt is None else not_learnt(example.output for example in examples)

    def _embedded(self, rows: list[Example], dim: int | None) -> np.ndarray:
        texts = [context_text(row, self.context) for row in rows]
        encoded = [replace(row, input=text) for row, text in zip(rows, texts, strict=True)]
        return embed(self._bank_side.encode_bank, encoded, texts, dim, self.encoder)

    def remove(self, ids: str | Example | Iterable[str | Example]) -> None:
        """Remove one or several examples from the bank, given by id or as Examples.

        Raises:
            UserError: an id is not in the bank, or is that of a fixed example; nothing is removed.
        """
        several = [ids] if isinstance(ids, (str, Example)) or not isinstance(ids, Iterable) else ids
        names = [
            example.id if isinstance(example, Example) else str(example) for example in several
        ]
        if in_use := [name for name in names if name in self.fixed]:
            raise UserError(
                f"{in_use[0]!r} is a fixed example, which is in every prompt; take it from "
                "selector.fixed first"
            )
        bank = self.bank
        bank.remove(names)
        self._unlearnt = self._unlearnt and bool(self._labels_not_learnt(bank.snapshot))

    def select(self, query: str | ExampleLike, **options: Unpack[Options]) -> Selection:
        """Choose the examples for one query: `select(text, k=8)`.

        Greedy MAP chooses among the nearest `shortlist` distinct examples that pass the filter,
        until there are k or no other fits the token budget; k or a budget must be given. An example
        that does not fit is skipped. An example that repeats a chosen one (`near_duplicate`), or
        whose vector is a linear combination of chosen ones, is chosen only when no other is left.
        If neither happens, the set is the same as that of `build_retriever("dpp")`. With `balance`,
        each value of the field has an equal share of the shortlist, and each step chooses among the
        values chosen least often. With `min_relevance`, there are fewer examples, or none, if the
        others are too far from the query. `fixed` examples come first in every prompt and count
        among k.

        Unless `own_answer=True`, an example that is the query's own question is left out, so that
        no prompt contains its own answer. Questions are compared by their words, not by their ids.

        Args:
            query: a text; or a mapping or Example with an input and the fields that the template
                names.
            options: k, token_budget, trade_off, near_duplicate, min_relevance, own_answer, filter,
                balance: see `settings.Options`.

        Raises:
            UserError: neither k nor a budget is given, or one is not a whole number; a budget
                without `count_tokens`; a filter or balance on a field that no example has, or a
                filter on a value that none has; balance over more values than the shortlist is
                long.
        """
        return self.select_many([query], **options)[0]

    def select_many(
        self, queries: Sequence[str | ExampleLike], **options: Unpack[Options]
    ) -> list[Selection]:
        """Choose the examples for each of several queries, as `select` does for one.

        Queries are encoded together, and all use the bank as it was at the start.
        """
        check_names("select", options, CallSettings)
        settings = CallSettings(**{**self.settings, **options})
        query_examples = as_examples(queries, self.columns, "queries", "query", answered=False)
        bank = self.bank.snapshot
        call = of_this_bank(settings, bank)
        layout = call.written(lambda: bank.labels)
        texts = [query.input for query in query_examples]
        encode: Callable[..., Any] = self._query_side.encode_queries
        if self._unlearnt:
            encode = partial(encode, unlearnt=True)
        vectors = embed(encode, query_examples, texts, bank.dim, self.query_encoder)
        shortlists = bank.shortlists(query_examples, vectors, call)
        selections = [
            select_from(query, each, call, layout)
            for query, each in zip(query_examples, shortlists, strict=True)
        ]
        in_bank = sum(selection.excluded > 0 for selection in selections)
        if in_bank and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%d of %d queries are in the bank; their own examples are left out, now and "
                "later: own_answer=True would choose them",
                in_bank,
                len(query_examples),
            )
        return selections
