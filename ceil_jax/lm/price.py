"""Prices of tokens: the cost of an application's prompts, and of preparing a method."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.counting import common_beginning
from ceil_jax.lm.messages import Rendered, text_of

_MILLION = 1_000_000

_PART = re.compile(r"(?P<name>[$€£¥₹₩]|[^\W\d_]{2,})?(?P<number>\d+(\.\d+)?|\.\d+)?")
"""Pattern of a part of --price: a number, the name or symbol of a currency, or both."""


class Usage(NamedTuple):
    """The mean token counts of one query in an application."""

    prompt: float = 0.0
    beginning: float = 0.0
    """Tokens of the beginning that all prompts share; a provider can cache them."""
    answer: float = 0.0


def usage_of(
    prompts: Sequence[Rendered],
    answers: Sequence[str],
    count_tokens: Callable[[Sequence[str]], Any],
) -> Usage:
    """Return the mean numbers of tokens of some prompts and their answers.

    Args:
        prompts: N prompts. Their common prefix is their beginning, if they differ.
        answers: N answers.
        count_tokens: texts → the tokens of each.

    >>> usage_of(["a b c x", "a b c y"], ["yes", "no"], lambda texts: [len(t.split()) for t in texts])
    Usage(prompt=4.0, beginning=3.0, answer=1.0)
    """
    texts = [*map(text_of, prompts), *answers, beginning_of(prompts)]
    counts = np.asarray(count_tokens(texts), np.float64)
    of_prompts, of_answers, of_beginning = np.split(
        counts, [len(prompts), len(prompts) + len(answers)]
    )
    return Usage(
        prompt=float(of_prompts.mean()),
        beginning=float(of_beginning[0]),
        answer=float(of_answers.mean()),
    )


def total(usages: Sequence[Usage]) -> Usage:
    """Return the sum of token counts, for a query with several LM calls.

    Each text has a beginning of its own.

    >>> total([Usage(500, 400, 10), Usage(80, 0, 5)])
    Usage(prompt=580, beginning=400, answer=15)
    """
    return Usage(*(sum(numbers) for numbers in zip(*usages, strict=True)))


def beginning_of(prompts: Sequence[Rendered]) -> str:
    """Return the common prefix of all prompts as texts; "" if they are all equal."""
    # in sorted order, the common prefix of the first and the last is common to all
    first = min(map(text_of, prompts), default="")
    last = max(map(text_of, prompts), default="")
    return common_beginning(first, last) if first != last else ""


@dataclass(frozen=True)
class Price:
    """The price of a million tokens."""

    read: float
    """The price of prompt tokens."""
    written: float
    """The price of answer tokens."""
    cached: float | None = None
    """The price of prompt tokens in a provider's cache; None if it has no cache."""
    currency: str = "$"

    def of_queries(self, usage: Usage, count: int = 1000) -> float:
        """Return the cost of `count` queries, by default a thousand.

        The beginning that all prompts share is taken to be cached.

        >>> Price(2.0, 8.0, cached=0.2).of_queries(Usage(prompt=500, beginning=400, answer=10))
        0.36
        """
        cached = self.read if self.cached is None else self.cached
        new = usage.prompt - usage.beginning
        each = new * self.read + usage.beginning * cached + usage.answer * self.written
        return round(count * each / _MILLION, 12)

    def of_tokens(self, read: float, written: float = 0.0) -> float:
        """Return the cost of input tokens, none of them cached, and of output tokens."""
        return (read * self.read + written * self.written) / _MILLION

    def shown(self, money: float) -> str:
        """Return an amount of money as text, with two decimals, or more if these would be zeros.

        >>> Price(1, 1).shown(12.3456), Price(1, 1, currency="EUR").shown(0.00123)
        ('$12.35', '0.0012 EUR')
        """
        number = f"{money:,.{digits(money)}f}"
        before = len(self.currency) == 1
        return f"{self.currency}{number}" if before else f"{number} {self.currency}"


def digits(money: float) -> int:
    """Return the number of decimals to show of an amount of money.

    They are two, or more if these would be zeros.
    """
    if money <= 0 or money >= 0.1:
        return 2
    return min(8, 1 - math.floor(math.log10(money)))


def parse_price(text: str) -> Price:
    """Return the price for `--price IN,OUT[,CACHED]`.

    The name of a currency may come before or after the numbers; the default is dollars.

    Raises:
        UserError: there are not two or three numbers of at least 0, or there are two currencies.

    >>> parse_price("0.15,0.6,0.075").cached, parse_price("0.15, 0.6 EUR").currency
    (0.075, 'EUR')
    """
    numbers = []
    currencies = set()
    is_known = True
    for part in re.split(r"[,\s]+", text.strip()):
        match = _PART.fullmatch(part)
        if match is None:
            is_known = False
            continue
        if match["number"]:
            numbers.append(float(match["number"]))
        if match["name"]:
            currencies.add(match["name"])
    if not is_known or len(numbers) not in (2, 3) or len(currencies) > 1:
        raise UserError(
            f"--price {text}: expected IN,OUT or IN,OUT,CACHED, the price of a million tokens that "
            "are read, written, and read from the provider's cache, such as 0.15,0.6,0.075; in "
            "another currency than dollars 0.15,0.6,0.075,EUR"
        )
    cached = numbers[2] if len(numbers) == 3 else None
    currency = currencies.pop() if currencies else "$"
    return Price(numbers[0], numbers[1], cached, currency)
