"""`CeilSelector`: a live bank, its encoders and λ behind one call."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Self, Unpack

import numpy as np

from ceil_jax.encoders.example_encoder import example_encoder
from ceil_jax.errors import UserError, check_options
from ceil_jax.selector.bank import Bank, Snapshot
from ceil_jax.selector.choice import select_from
from ceil_jax.selector.filters import of_this_bank
from ceil_jax.selector.folder import download, load_selector, save_selector
from ceil_jax.selector.rows import ExampleLike, as_examples, table_examples
from ceil_jax.selector.selection import Selection
from ceil_jax.selector.settings import (
    CallSettings,
    FromExamples,
    Options,
    SettingOptions,
    Settings,
    check_names,
)
from ceil_jax.selector.vector_store import StoreBank
from ceil_jax.selector.vectors import (
    Encodes,
    RememberedQueries,
    as_encoders,
    embed,
    unit_vectors,
)
from ceil_jax.store.hub_cache import hub_snapshot
from ceil_jax.store.places import user_path
from ceil_jax.tasks.example import Example, context_text
from ceil_jax.tasks.files import TableLike

log = logging.getLogger(__name__)


class CeilSelector(Settings):
    """Chooses in-context examples from a bank by greedy MAP of the conditional DPP.

    Relevance and similarity are (1 + cosine) / 2 of the encoders' vectors, which need not be unit;
    those of queries and of examples may come from different encoders of one length. Every method
    may be called from any thread: a selection sees the bank as it was when it began.

    Attributes:
        bank: the examples and their vectors; or a vector store, which is added to and removed from
            by its own means.
        encoder: embeds the bank.
        query_encoder: embeds the queries; the same as `encoder` unless another one was given.
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
        bank: Bank | StoreBank,
        encoder: Encodes,
        query_encoder: Encodes | None = None,
        **settings: Unpack[SettingOptions],
    ) -> None:
        check_names("CeilSelector", settings, Settings)
        values: dict[str, Any] = {**settings}
        super().__init__(**values)
        self.bank = bank
        self.encoder, query_side = as_encoders(encoder)
        self.query_encoder: Any = (
            query_side if query_encoder is None else as_encoders(query_encoder)[1]
        )
        self._bank_side = example_encoder(self.encoder)
        self._query_side = example_encoder(self.query_encoder)
        self._told = False

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
        """Make a selector from examples and an encoder; `pipeline.export.selector_of` makes trained
        ones.

        Args:
            examples: Examples or {"input": …, "output": …}; other keys than id, choices and
                references are metadata for filters and templates. Examples without an id get a
                number.
            encoder: embeds the bank, and the queries too unless `query_encoder` is given: a name,
                folder, hub id or address that `load_encoder` takes; an object with `encode(texts)`
                or with `encode_bank(examples)` and `encode_queries(queries)`; LangChain embeddings; or a function
                from a list of texts to vectors.
            query_encoder: likewise, for the queries.
            vectors: the vectors of the examples [N, D], where they are known already.
            settings: see `settings.Settings`.

        Raises:
            UserError: a row that is no example, an id given twice, vectors or a setting that does
                not fit, or a name that is no setting.

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
        skip_bad_rows: bool = False,
        **more: Unpack[FromExamples],
    ) -> Self:
        """Make a selector from a file with one example a row: .csv, .tsv, .jsonl, .json or
        .parquet, .gz too.

        Args:
            file: the file; columns other than `input_key`, `output_key`, id, choices and references
                are metadata.
            delimiter: what separates values; by default a tab in .tsv, else a comma.
            skip_bad_rows: leave out rows that are no examples, with a warning that lists them;
                refused by default.
            more: the other arguments of `from_examples`, `encoder` among them.

        Raises:
            UserError: no such file, or a row that is no example, named by its line.
        """
        names = {field.name for field in fields(Settings)}
        check_options("from_csv", more, FromExamples.__annotations__)
        options: dict[str, Any] = {**more}
        columns = Settings(**{name: options[name] for name in options if name in names}).columns
        rows = table_examples(file, columns, delimiter, skip_bad_rows=skip_bad_rows)
        return cls.from_examples(rows, **more)

    @classmethod
    def from_dataframe(cls, frame: Any, **more: Unpack[FromExamples]) -> Self:
        """`from_csv` for a pandas or polars data frame; missing values leave a metadata field
        out."""
        return cls.from_csv(frame, **more)

    @classmethod
    def from_vector_store(
        cls,
        store: Any,
        *,
        encoder: Encodes | None = None,
        search: Mapping[str, Any] | None = None,
        **settings: Unpack[SettingOptions],
    ) -> Self:
        """Make a selector whose bank lives in a LangChain `VectorStore`: the store searches, the
        DPP chooses.

        A `filter` is passed to the store as it is, in the form that the store takes.

        Args:
            store: the LangChain vector store.
            encoder: as in `from_examples`; by default the store's embeddings.
            search: further arguments of the store's `similarity_search`.
            settings: see `settings.Settings`. `output_key` names the metadata field that is an
                example's output, and `input_key` the one that is its input, which is the document's
                text by default.

        Raises:
            UserError: no vector store; one without embeddings, and no `encoder`; or a setting that
                does not fit.
        """
        if not callable(getattr(store, "similarity_search", None)):
            raise UserError(f"store is {store!r:.80}; expected a LangChain VectorStore")
        embed_query = None
        if encoder is None:
            encoder = getattr(store, "embeddings", None)
            if encoder is None:
                raise UserError(
                    f"{type(store).__name__} does not say what embeds its documents: give encoder=…"
                )
            encoder = RememberedQueries(encoder)
            embed_query = encoder.embed_query
        documents, queries = as_encoders(encoder)
        as_text = "input_key" not in settings
        bank = StoreBank(store, documents, search or {}, as_text, embed_query)
        return cls(bank, documents, queries, **settings)

    @classmethod
    def from_pretrained(
        cls, folder: str | os.PathLike[str], **settings: Unpack[SettingOptions]
    ) -> Self:
        """Load what `save_pretrained` wrote; every file's sha256 is compared, and the vectors are
        memory-mapped.

        Nothing is imported: register an encoder of your own before (`register_encoder`).

        Args:
            folder: a folder, or a Hugging Face hub id.
            settings: see `settings.Settings`; they replace the saved ones.

        Raises:
            UserError: no such folder; a file missing, damaged, or of another save; an encoder that
                is not registered.
        """
        path = hub_snapshot(user_path(folder))
        bank, encoders, saved = load_selector(
            path if path.is_dir() else download(os.fspath(folder))
        )
        return cls(bank, **encoders, **{**saved, **settings})

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder for `from_pretrained`: JSON, npy, safetensors and a model card.

        It takes the place of a selector that was saved there before in one step: after a crash, the
        folder holds the old one or the new one, whole. `hf upload owner/name folder` shares it.

        Raises:
            UserError: the folder cannot be written, or an encoder cannot be saved.
        """
        # in this order: an id may be skipped, never given twice
        bank = self._own_bank()
        snapshot = bank.snapshot
        next_id = bank.next_id
        encoders = {"encoder": self.encoder}
        if self.query_encoder is not self.encoder:
            encoders["query_encoder"] = self.query_encoder
        save_selector(user_path(folder), snapshot, next_id, encoders, self.settings)

    @classmethod
    def over(
        cls, examples: Iterable[ExampleLike], selector_or_encoder: CeilSelector | Encodes
    ) -> Self:
        """Return a selector of examples, called input and output, with a selector's encoders and
        settings.

        The template is the default one, and nothing is balanced or fixed, because the selector's
        settings may name fields and ids that only its own examples have. Given an encoder, all
        settings are the default ones.
        """
        if not isinstance(selector_or_encoder, CeilSelector):
            return cls.from_examples(examples, encoder=selector_or_encoder)
        of_these = ("template", "card", "input_key", "output_key", "balance", "fixed")
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
        """A selector with a bank of its own, which shares the vectors; encoders never change and
        are shared."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self), bank=copy.copy(self.bank))
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return what `copy.copy` returns: the two copies change apart already, which is all that a
        deep copy is for."""
        return copy.copy(self)

    def __reduce__(self) -> Any:
        raise UserError(
            "a selector is not pickled: save_pretrained(folder) here, "
            "CeilSelector.from_pretrained(folder) there"
        )

    def _own_bank(self) -> Bank:
        if not isinstance(self.bank, Bank):
            raise UserError(
                "the examples are the vector store's: add, remove, list and save them there"
            )
        return self.bank

    def __len__(self) -> int:
        return len(self._own_bank())

    @property
    def examples(self) -> list[Example]:
        """The bank, in the order it was added."""
        return list(self._own_bank().snapshot)

    @property
    def unseen(self) -> int | None:
        """The number of examples that the encoder's free method has not learnt from, such as those
        added since it was exported; they are ranked like all others. None for other encoders."""
        count = getattr(self.encoder, "unseen", None)
        return count and count(self.examples)

    def add(self, examples: Iterable[ExampleLike]) -> list[str]:
        """Embed examples, which are as in `from_examples`, add them to the bank, and return their
        ids.

        Raises:
            UserError: a row that is no example, or an id that is there already; nothing is added.
        """
        return self._add(self._own_bank(), as_examples(examples, self.columns))

    def _add(self, bank: Bank, rows: list[Example], vectors: np.ndarray | None = None) -> list[str]:
        texts = [context_text(row, self.context) for row in rows]
        # encoding takes long and comes first: the bank's lock is held for the appending alone
        if vectors is None:
            encoded = [replace(row, input=text) for row, text in zip(rows, texts, strict=True)]
            encode = self._bank_side.encode_bank
            vectors = embed(encode, encoded, texts, bank.snapshot.dim, self.encoder)
        else:
            vectors = unit_vectors(vectors, texts, None, self.encoder)
        return bank.add(rows, vectors)

    def remove(self, ids: str | Example | Iterable[str | Example]) -> None:
        """Remove examples from the bank: one or several, by their ids or themselves.

        Raises:
            UserError: an id that is not there, or that of a fixed example; nothing is removed.
        """
        several = [ids] if isinstance(ids, (str, Example)) or not isinstance(ids, Iterable) else ids
        names = [
            example.id if isinstance(example, Example) else str(example) for example in several
        ]
        if in_use := [name for name in names if name in self.fixed]:
            raise UserError(
                f"{in_use[0]!r} is a fixed example, which stands in every prompt; take it from "
                "selector.fixed first"
            )
        self._own_bank().remove(names)

    def select(self, query: str | ExampleLike, **options: Unpack[Options]) -> Selection:
        """Choose the examples for one query: `select(text, k=8)`.

        Greedy MAP chooses among the nearest `shortlist` examples that pass the filter, no two of
        them equal, until there are k or no other fits the token budget; one of the two must be
        given. An example that does not fit is passed over, and one that repeats a chosen one
        (`near_duplicate`), or whose vector is a combination of theirs, is chosen only when no other
        is left; where neither was met, the set is the MAP set of its size, the one of
        `build_retriever("dpp")`. With `balance` each value of the field has an equal share of the
        shortlist, and each step chooses among the values chosen least often. With `min_relevance`
        there are fewer examples, or none, where the others are too far from the query. Those that
        are `fixed` stand first in every prompt and count among k.

        An example that asks the query's own question is left out, so that no prompt holds its own
        answer, unless `own_answer=True`. Questions are the same by their words, whatever their ids.

        Args:
            query: a text; or a mapping or Example with an input, and the fields that the template
                names.
            options: k, token_budget, trade_off, near_duplicate, min_relevance, own_answer, filter,
                balance: see `settings.Options`.

        Raises:
            UserError: neither k nor a budget, or one that is no whole number; a budget without
                `count_tokens`; a filter or balance on a field that no example has, or a filter on a
                value that none has; balance over more values than the shortlist is long.
        """
        return self.select_many([query], **options)[0]

    def select_many(
        self, queries: Sequence[str | ExampleLike], **options: Unpack[Options]
    ) -> list[Selection]:
        """`select` for each query, all with the bank as it was at the start; they are encoded
        together."""
        check_names("select", options, CallSettings)
        settings = CallSettings(**{**self.settings, **options})
        query_examples = as_examples(queries, self.columns, "queries", "query", answered=False)
        bank = self.bank.snapshot
        call = of_this_bank(settings, bank if isinstance(bank, Snapshot) else None)
        texts = [query.input for query in query_examples]
        encode = self._query_side.encode_queries
        vectors = embed(encode, query_examples, texts, bank.dim, self.query_encoder)
        shortlists = bank.shortlists(query_examples, vectors, call)
        selections = [
            select_from(query, each, call)
            for query, each in zip(query_examples, shortlists, strict=True)
        ]
        met = sum(selection.excluded > 0 for selection in selections)
        if met and not self._told:
            self._told = True
            way = (
                "their own examples are left out, now and later: own_answer=True would choose them"
            )
            log.warning("%d of %d queries stand in the bank; %s", met, len(query_examples), way)
        return selections
