"""`CeilSelector`: a live bank, its encoders and λ behind one call."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.selector.bank import Bank
from ceil_jax.selector.card import Card
from ceil_jax.selector.choice import Request, choose
from ceil_jax.selector.files import load, save
from ceil_jax.selector.hub import download, upload
from ceil_jax.selector.manifest import SavedSettings
from ceil_jax.selector.options import (
    CONTEXTS,
    DEFAULT_SHORTLIST,
    DEFAULT_TEMPLATE,
    DEFAULT_TRADE_OFF,
    Options,
    Settings,
    check_names,
    count,
    positive,
)
from ceil_jax.selector.rows import Row, read_examples, read_queries
from ceil_jax.selector.selection import Selection
from ceil_jax.selector.vectors import as_encoder, checked, embed, name_of
from ceil_jax.tasks.example import Example, Template, context_text

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

QUERIES_AT_ONCE = 64
"""The number of queries that are scored against the bank in one matrix product."""


class CeilSelector:
    """Chooses in-context examples from a live bank by greedy MAP of the conditional DPP.

    Every method may be called from any thread: a selection sees the bank as it was when it began.

    Attributes:
        bank: the examples and their vectors.
        encoder: embeds the bank.
        query_encoder: embeds the queries; the same as `encoder` unless another one was given.
        trade_off, shortlist, template, context, count_tokens, card: see `options.Settings`.
    """

    def __init__(
        self,
        bank: Bank,
        encoder: Encoder,
        query_encoder: Encoder | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """
        Args:
            bank: the examples and their vectors.
            encoder: the encoder that embeds the bank.
            query_encoder: the encoder that embeds the queries; `encoder` by default.
            settings: see `options.Settings`.

        Raises:
            UserError: a setting that does not exist, or of the wrong type or range.
        """
        check_names(settings, Settings.__annotations__)
        self.bank = bank
        self.encoder, self.query_encoder = encoder, query_encoder or encoder
        self.trade_off = positive("trade_off", settings.get("trade_off", DEFAULT_TRADE_OFF))
        self.shortlist = count("shortlist", settings.get("shortlist", DEFAULT_SHORTLIST))
        template = settings.get("template", DEFAULT_TEMPLATE)
        self.template = Template(template) if isinstance(template, str) else template
        self.context = settings.get("context", "input")
        if self.context not in CONTEXTS:
            raise unknown_name("context", str(self.context), CONTEXTS)
        self.count_tokens = settings.get("count_tokens")
        self.card = settings.get("card") or Card()

    @classmethod
    def from_examples(
        cls,
        examples: Iterable[Row],
        *,
        encoder: Encoder | str,
        query_encoder: Encoder | str | None = None,
        vectors: np.ndarray | None = None,
        **settings: Unpack[Settings],
    ) -> CeilSelector:
        """Make a selector from examples and an encoder; `pipeline.Pipeline.selector` makes trained ones.

        Args:
            examples: Examples or {"input": …, "output": …}; other keys than id, choices and references are
                metadata for filters and templates. Examples without an id get a number.
            encoder: an Encoder or what `load_encoder` takes. It embeds the bank, and the queries too unless
                `query_encoder` is given.
            query_encoder: likewise, for the queries.
            vectors: the vectors of the examples [N, D], where they are known already.
            settings: see `options.Settings`.

        Raises:
            UserError: a row that is no example, an id given twice, or vectors that do not fit.
        """
        query = None if query_encoder is None else as_encoder(query_encoder)
        selector = cls(Bank([], np.zeros((0, 0), np.float32)), as_encoder(encoder), query, **settings)
        rows = read_examples(examples)
        if vectors is None:
            selector.add(rows)
        else:
            selector.bank.add(rows, checked(vectors, selector._texts(rows), None, name_of(selector.encoder)))
        return selector

    def with_examples(self, examples: Iterable[Row]) -> CeilSelector:
        """Return a selector of other examples with the same encoders and settings.

        The template is the default one, because this one may name fields that only these examples have.
        """
        return type(self).from_examples(
            examples,
            encoder=self.encoder,
            query_encoder=self.query_encoder,
            trade_off=self.trade_off,
            shortlist=self.shortlist,
            context=self.context,
            count_tokens=self.count_tokens,
        )

    @classmethod
    def from_pretrained(
        cls,
        folder: str | os.PathLike[str],
        *,
        verify: bool = True,
        allow_import: Collection[str] = (),
        **settings: Unpack[Settings],
    ) -> CeilSelector:
        """Load what `save_pretrained` or `push_to_hub` wrote; the vectors are memory-mapped.

        Args:
            folder: a folder, or a Hugging Face hub id.
            verify: compare every file's sha256 with what was saved, which reads the files once.
            allow_import: the modules ("my_encoders"), or functions ("my_encoders:build"), that the folder of an
                encoder of your own may import. What comes from the hub never imports anything.
            settings: see `options.Settings`; they replace the saved ones.

        Raises:
            UserError: no such folder; a file missing, damaged, or of another save; an encoder that asks to import
                what is not allowed.
        """
        check_names(settings, Settings.__annotations__)
        path = Path(folder).expanduser()
        if not path.is_dir():
            # what strangers wrote imports nothing, whatever the caller allows
            path, allow_import = download(os.fspath(folder)), ()
        found = load(path, verify, allow_import)
        saved: Settings = {
            "trade_off": found.settings.trade_off,
            "shortlist": found.settings.shortlist,
            "template": found.settings.template,
            "context": found.settings.context,
            "card": found.settings.card,
        }
        saved.update(settings)
        return cls(found.bank, found.encoders["encoder"], found.encoders.get("query_encoder"), **saved)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder for `from_pretrained`: JSON, parquet, npy, safetensors and a model card.

        It takes the place of a selector that was saved there before in one step: whoever loads the folder
        meanwhile, and after a crash, gets the old one or the new one, whole.

        Args:
            folder: made if need be.

        Raises:
            UserError: the folder cannot be written, or an encoder cannot be saved.
        """
        # in this order: an id may be skipped, never given twice
        view, next_id = self.bank.view, self.bank.next_id
        encoders = {"encoder": self.encoder}
        if self.query_encoder is not self.encoder:
            encoders["query_encoder"] = self.query_encoder
        settings = SavedSettings(
            positive("trade_off", self.trade_off),
            count("shortlist", self.shortlist),
            self.template,
            self.context,
            self.card,
        )
        save(Path(folder).expanduser(), view, next_id, encoders, settings)

    def push_to_hub(self, repo_id: str, *, private: bool = True, token: str | None = None) -> str:
        """Upload what `save_pretrained` writes, the examples' text with it; return the commit's address.

        Args:
            repo_id: "owner/name" on the hub.
            private: whether a repository that is made is private.
            token: the hub's token; None for the one of `hf auth login`.

        Raises:
            UserError: not logged in, no such name, or no connection.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return upload(Path(folder), repo_id, f"Selector of {len(self)} examples", private, token)

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
        rows = read_examples(examples)
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

    def select(self, query: str | Row, **options: Unpack[Options]) -> Selection:
        """Choose the examples for one query: `select(text, k=8)`.

        Greedy MAP chooses among the nearest `shortlist` examples that pass the filter, no two of them equal, until
        there are k or no other fits the token budget; one of the two must be given. An example that does not fit
        is passed over; where none was, the set is the MAP set of its size, the one of `build_retriever("dpp")`.
        With `balance="label"` each output has an equal share of the shortlist, and each step chooses among the
        outputs chosen least often.

        Args:
            query: a text; or a mapping or Example with an input, and the fields that the template names. An
                example of the bank (by id) is not chosen for itself.
            options: k, token_budget, trade_off, filter, balance: see `options.Options`.

        Raises:
            UserError: neither k nor a budget, or one that is no whole number; a budget without `count_tokens`; a
                filter on a field that no example has; balance over more outputs than the shortlist is long.
        """
        return self.select_many([query], **options)[0]

    def select_many(self, queries: Sequence[str | Row], **options: Unpack[Options]) -> list[Selection]:
        """`select` for each query, all with the bank as it was at the start; they are encoded together."""
        check_names(options, Options.__annotations__)
        asked = read_queries(queries)
        request = self._request(options)
        view = self.bank.view
        vectors = embed(self.query_encoder, [query.input for query in asked], view.dim)
        selections = []
        for start in range(0, len(asked), QUERIES_AT_ONCE):
            block = slice(start, start + QUERIES_AT_ONCE)
            for query, cosines in zip(asked[block], view.cosines(vectors[block]), strict=True):
                selections.append(choose(view, query, cosines, request))
        return selections

    async def aselect(self, query: str | Row, **options: Unpack[Options]) -> Selection:
        """`select` in a worker thread."""
        return await asyncio.to_thread(self.select, query, **options)

    async def aselect_many(self, queries: Sequence[str | Row], **options: Unpack[Options]) -> list[Selection]:
        """`select_many` in a worker thread."""
        return await asyncio.to_thread(self.select_many, queries, **options)

    def _texts(self, rows: Iterable[Example]) -> list[str]:
        return [context_text(row, self.context) for row in rows]

    def _request(self, options: Options) -> Request:
        k, token_budget = options.get("k"), options.get("token_budget")
        trade_off, balance = options.get("trade_off"), options.get("balance")
        if k is None and token_budget is None:
            raise UserError("select needs k=… (examples), token_budget=… (tokens) or both")
        if token_budget is not None and self.count_tokens is None:
            raise UserError(
                "token_budget needs the tokenizer of your language model: give the selector count_tokens=…, a "
                "function from texts to token counts, such as load_lm(…).count_tokens or "
                "lambda texts: [len(tokenizer.encode(text)) for text in texts]"
            )
        if balance not in (None, "label"):
            raise unknown_name("balance", str(balance), ("label",))
        return Request(
            None if k is None else count("k", k),
            None if token_budget is None else count("token_budget", token_budget, least=0),
            positive("trade_off", self.trade_off if trade_off is None else trade_off),
            options.get("filter"),
            balance is not None,
            count("shortlist", self.shortlist),
            self.template,
            self.count_tokens,
        )
