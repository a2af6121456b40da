"""What every selector has: its settings, and the four forms of `select`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Unpack

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.selector.card import Card
from ceil_jax.selector.choice import Request
from ceil_jax.selector.options import (
    CONTEXTS,
    DEFAULT_NEAR_DUPLICATE,
    DEFAULT_SHORTLIST,
    DEFAULT_TEMPLATE,
    DEFAULT_TRADE_OFF,
    Options,
    Settings,
    check_names,
    count,
    positive,
    threshold,
)
from ceil_jax.selector.rows import Keys, Row
from ceil_jax.selector.selection import Selection
from ceil_jax.tasks.example import Template


class Asking(ABC):
    """The settings of a selector, and `select` for one query, several, and in a worker thread.

    Args:
        settings: see `options.Settings`.

    Raises:
        UserError: a setting that does not exist, or of the wrong type or range.
    """

    def __init__(self, **settings: Unpack[Settings]) -> None:
        check_names(settings, Settings.__annotations__)
        self.trade_off = positive("trade_off", settings.get("trade_off", DEFAULT_TRADE_OFF))
        self.near_duplicate = threshold(
            "near_duplicate", settings.get("near_duplicate", DEFAULT_NEAR_DUPLICATE)
        )
        self.shortlist = count("shortlist", settings.get("shortlist", DEFAULT_SHORTLIST))
        template = settings.get("template", DEFAULT_TEMPLATE)
        self.template = Template(template) if isinstance(template, str) else template
        self.context = settings.get("context", "input")
        if self.context not in CONTEXTS:
            raise unknown_name("context", str(self.context), CONTEXTS)
        self.count_tokens = settings.get("count_tokens")
        self.card = settings.get("card") or Card()
        self.keys = Keys()

    @abstractmethod
    def select_many(self, queries: Sequence[str | Row], **options: Unpack[Options]) -> list[Selection]:
        """`select` for each query, all with the bank as it was at the start; they are encoded together."""

    def select(self, query: str | Row, **options: Unpack[Options]) -> Selection:
        """Choose the examples for one query: `select(text, k=8)`.

        Greedy MAP chooses among the nearest `shortlist` examples that pass the filter, no two of them equal, until
        there are k or no other fits the token budget; one of the two must be given. An example that does not fit is
        passed over, and one that repeats a chosen one (`near_duplicate`) is chosen only when no other is left; where
        neither was met, the set is the MAP set of its size, the one of `build_retriever("dpp")`. With
        `balance="label"` each output has an equal share of the shortlist, and each step chooses among the outputs
        chosen least often.

        Args:
            query: a text; or a mapping or Example with an input, and the fields that the template names. An
                example of the bank (by id) is not chosen for itself.
            options: k, token_budget, trade_off, near_duplicate, filter, balance: see `options.Options`.

        Raises:
            UserError: neither k nor a budget, or one that is no whole number; a budget without `count_tokens`; a
                filter on a field that no example has; balance over more outputs than the shortlist is long.
        """
        return self.select_many([query], **options)[0]

    async def aselect(self, query: str | Row, **options: Unpack[Options]) -> Selection:
        """`select` in a worker thread."""
        return await asyncio.to_thread(self.select, query, **options)

    async def aselect_many(self, queries: Sequence[str | Row], **options: Unpack[Options]) -> list[Selection]:
        """`select_many` in a worker thread."""
        return await asyncio.to_thread(self.select_many, queries, **options)

    def request(self, options: Options) -> Request:
        """Return the options of a call, checked, with the settings in place of those that are not given.

        Raises:
            UserError: see `select`.
        """
        check_names(options, Options.__annotations__)
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
            threshold("near_duplicate", options.get("near_duplicate", self.near_duplicate)),
            options.get("filter"),
            balance is not None,
            count("shortlist", self.shortlist),
            self.template,
            self.count_tokens,
        )
