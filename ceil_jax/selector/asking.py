"""The base of all selectors: settings, and the four forms of `select`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from ceil_jax.errors import UserError
from ceil_jax.selector.choice import Request
from ceil_jax.selector.folder.card import Card
from ceil_jax.selector.options import CheckedSettings, Options, Settings, check_names, count
from ceil_jax.selector.rows import Row
from ceil_jax.selector.selection import Selection
from ceil_jax.tasks.example import Template


class Asking(CheckedSettings, ABC):
    """The settings of a selector, each an attribute that may be set, and `select` for one query or several.

    Args:
        settings: see `options.Settings`.

    Raises:
        UserError: a setting that does not exist, or of the wrong type or range.
    """

    def __init__(self, **settings: Unpack[Settings]) -> None:
        check_names(settings, Settings.__annotations__)
        given: dict[str, Any] = dict(settings)
        if isinstance(given.get("template"), str):
            given["template"] = Template(given["template"])
        given["card"] = given.get("card") or Card()
        super().__init__(**given)

    @property
    def settings(self) -> CheckedSettings:
        """The settings as they are now.

        Raises:
            UserError: one was set to something of the wrong type or range.
        """
        return CheckedSettings(**{name: getattr(self, name) for name in Settings.__annotations__})

    @abstractmethod
    def select_many(self, queries: Sequence[str | Row], **options: Unpack[Options]) -> list[Selection]:
        """`select` for each query, all with the bank as it was at the start; they are encoded together."""

    def select(self, query: str | Row, **options: Unpack[Options]) -> Selection:
        """Choose the examples for one query: `select(text, k=8)`.

        Greedy MAP chooses among the nearest `shortlist` examples that pass the filter, no two of them equal, until
        there are k or no other fits the token budget; one of the two must be given. An example that does not fit is
        passed over, and one that repeats a chosen one (`near_duplicate`) is chosen only when no other is left; where
        neither was met, the set is the MAP set of its size, the one of `build_retriever("dpp")`. With
        `balance` each value of the field has an equal share of the shortlist, and each step chooses among the values
        chosen least often.

        Args:
            query: a text; or a mapping or Example with an input, and the fields that the template names. An
                example of the bank (by id) is not chosen for itself.
            options: k, token_budget, trade_off, near_duplicate, filter, balance: see `options.Options`.

        Raises:
            UserError: neither k nor a budget, or one that is no whole number; a budget without `count_tokens`; a
                filter or balance on a field that no example has; balance over more values than the shortlist is long.
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
        if k is None and token_budget is None:
            raise UserError("select needs k=… (examples), token_budget=… (tokens) or both")
        if token_budget is not None and self.count_tokens is None:
            raise UserError(
                "token_budget needs the tokenizer of your language model: give the selector count_tokens=…, a "
                "function from texts to token counts, such as load_lm(…).count_tokens or "
                "lambda texts: [len(tokenizer.encode(text)) for text in texts]"
            )
        own: dict[str, Any] = {}
        if options.get("trade_off") is not None:
            own["trade_off"] = options["trade_off"]
        if "near_duplicate" in options:
            own["near_duplicate"] = options["near_duplicate"]
        return Request(
            replace(self.settings, **own),
            None if k is None else count("k", k),
            None if token_budget is None else count("token_budget", token_budget, least=0),
            options.get("filter"),
            "output" if options.get("balance") == "label" else options.get("balance"),
        )
