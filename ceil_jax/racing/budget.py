"""The budget of a search: LM tokens, prompts, seconds, money. Each step is estimated before it is taken."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Annotated

from ceil_jax.errors import Range, UserError, check_ranges

LM_TOKENS = 1_000_000
"""The default budget: about 10 to 15 minutes of SmolLM2-135M on 2 CPU cores."""


@dataclass(frozen=True)
class Limits:
    """The most that a search may spend; without any limit, 1,000,000 LM tokens."""

    lm_tokens: Annotated[int | None, Range(1)] = None
    """LM tokens in all: of tuning, of training's scores and of the final rows. 1,000,000 if no limit is given."""
    requests: Annotated[int | None, Range(1)] = None
    """Prompts that the LM is given."""
    seconds: Annotated[float | None, Range(above=0)] = None
    """Seconds of work, including those of an earlier process that was stopped."""
    money: Annotated[float | None, Range(above=0)] = None
    """Money for LM tokens, in the currency of --price-per-million."""
    price_per_million: Annotated[float | None, Range(above=0)] = None
    """The price of a million LM tokens."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.money is not None and self.price_per_million is None:
            raise UserError("--money: give --price-per-million too, the price of a million LM tokens")

    @property
    def tokens(self) -> float:
        """The limit of LM tokens that follows from `lm_tokens` and `money`."""
        others = (self.requests, self.seconds, self.money)
        given = self.lm_tokens
        if given is None and all(limit is None for limit in others):
            given = LM_TOKENS
        most = math.inf if given is None else float(given)
        if self.money is not None and self.price_per_million is not None:
            most = min(most, 1e6 * self.money / self.price_per_million)
        return most

    def flags(self) -> str:
        """Return the limits as they were given, for messages."""
        named = {"lm-tokens": self.lm_tokens, "requests": self.requests}
        given = [f"--{name} {value:,}" for name, value in named.items() if value is not None]
        given += [f"--seconds {self.seconds:g}"] if self.seconds is not None else []
        given += [f"--money {self.money:g}"] if self.money is not None else []
        return " ".join(given) or f"--lm-tokens {LM_TOKENS:,}"


class Meter:
    """The amounts spent, and the remaining budget.

    Work is estimated by the tokens of its prompts, an upper bound. A server may count more, for example for each
    choice or for a chat template; the ratio is measured as work is done, and raises later estimates.

    Args:
        limits: what may be spent.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.tokens = self.requests = 0
        self._estimated = self._worked = self._inside = 0.0
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The LM's time in all processes, plus all other time since this process began."""
        return self._worked + time.perf_counter() - self._began - self._inside

    def spend(
        self, tokens: int, requests: int, seconds: float, estimated: float, inside: float | None = None
    ) -> None:
        """Add finished work.

        Args:
            tokens: LM tokens that were read and written.
            requests: prompts.
            seconds: its duration, possibly in an earlier process.
            estimated: its estimated LM tokens.
            inside: the part of `seconds` that passed in this process; all by default.
        """
        self.tokens += tokens
        self.requests += requests
        self._worked += seconds
        self._inside += seconds if inside is None else inside
        self._estimated += estimated

    @property
    def ratio(self) -> float:
        """Factor on later estimates: tokens spent per token estimated, at least 1."""
        return max(1.0, self.tokens / self._estimated) if self._estimated else 1.0

    @property
    def seconds_per_token(self) -> float:
        """Mean seconds per estimated token; 0 before any work."""
        return self._worked / self._estimated if self._estimated else 0.0

    @property
    def requests_left(self) -> float:
        """The prompts that may still be asked; infinite without a limit."""
        return math.inf if self.limits.requests is None else self.limits.requests - self.requests

    def left(self) -> float:
        """Return the remaining budget in estimated LM tokens. The limit on prompts is not counted in."""
        rest = [(self.limits.tokens - self.tokens) / self.ratio]
        if self.limits.seconds is not None and self.seconds_per_token:
            rest.append((self.limits.seconds - self.seconds) / self.seconds_per_token)
        return max(0.0, min(rest))

    @property
    def money(self) -> float | None:
        """The money spent; None without a price."""
        price = self.limits.price_per_million
        return None if price is None else self.tokens * price / 1e6

    def __str__(self) -> str:
        most = self.limits.tokens
        parts = [f"{self.tokens:,}{'' if math.isinf(most) else f' of {most:,.0f}'} LM tokens"]
        for name, used, limit in (
            ("prompts", self.requests, self.limits.requests),
            ("seconds", round(self.seconds), self.limits.seconds),
        ):
            parts.append(f"{used:,}{'' if limit is None else f' of {limit:,.0f}'} {name}")
        if self.money is not None:
            parts.append(f"{self.money:.2f} in money")
        return ", ".join(parts)
