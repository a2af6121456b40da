"""The budget of a search in LM tokens and minutes. Each step is estimated before it is taken."""

from __future__ import annotations

import math
import time

from ceil_jax.lm.openai.address import is_address
from ceil_jax.pipeline.plan import duration, minutes_for
from ceil_jax.store.cost import Cost

LM_TOKENS = 1_000_000
"""The default budget in LM tokens: 15 minutes of SmolLM2-135M on 2 idle CPU cores, an hour on busy ones."""


def token_limit(lm_tokens: int | None, minutes: float | None, lm: str) -> int | None:
    """Return the most LM tokens that a search may spend; None if only its minutes are limited.

    Args:
        lm_tokens: the user's limit; None for the default.
        minutes: the user's limit of minutes; None for no limit.
        lm: the name of the LM. A server's tokens cost money, so the default limit stays there even
            if minutes are given.
    """
    if lm_tokens is None and (minutes is None or is_address(lm)):
        return LM_TOKENS
    return lm_tokens


PLANNED = 0.9
"""The share of the minutes that is planned; the page and the selector take the rest."""

PREPARING = 1 / 3
"""The share of the minutes after which nothing more is encoded or trained before the race. A step
that has begun is finished, so that about half of the minutes are left for answers."""


class Budget:
    """The LM tokens and minutes that a search may spend, has spent, and has left.

    The estimate of work is the number of tokens in its prompts. A server may count more, for
    example for each choice or for a chat template. The ratio of the two is measured as work is
    done, and raises later estimates.

    Args:
        lm_tokens: the most LM tokens to spend; None for no limit except the minutes.
        minutes: the minutes to spend; None for no limit.
        began: the start of the minutes, by `time.perf_counter`; by default now.
    """

    def __init__(
        self,
        lm_tokens: int | None = None,
        minutes: float | None = None,
        began: float | None = None,
    ) -> None:
        self.limit = lm_tokens
        self.minutes = minutes
        self.tokens = 0
        self._measured_estimate = 0.0
        """The estimated tokens of the work with which the LM's speed was measured."""
        self._measured_tokens = 0.0
        """The tokens that the LM counted for this work."""
        self._measured_seconds = 0.0
        """The seconds that this work took."""
        self._missed_tokens = 0.0
        """The estimated tokens of the work that the budget did not pay for."""
        self._missed_seconds = 0.0
        """The seconds that this work takes, without the LM's."""
        self._preparing_seconds = 0.0
        """The time of all encoding and training before the race, if some was left out."""
        self._began = time.perf_counter() if began is None else began

    @property
    def elapsed(self) -> float:
        """Minutes since the search began."""
        return (time.perf_counter() - self._began) / 60

    @property
    def seconds_left(self) -> float:
        """Seconds of the planned share of the minutes that have not passed."""
        return math.inf if self.minutes is None else 60 * (PLANNED * self.minutes - self.elapsed)

    @property
    def preparing_seconds_left(self) -> float:
        """Seconds in which encoding and training before the race may still begin."""
        return math.inf if self.minutes is None else 60 * (PREPARING * self.minutes - self.elapsed)

    def out_of_time(self, reserve: float = 0.0, seconds: float = 0.0) -> bool:
        """Return whether less time is left than some work takes.

        It takes `seconds`, and the reading of `reserve` LM tokens.
        """
        return self.seconds_left - seconds < reserve * self.pace

    def spend(self, cost: Cost, estimated: float, *, measured: bool = True) -> None:
        """Record finished work as spent.

        Args:
            cost: its tokens and seconds, possibly of an earlier process.
            estimated: its estimated LM tokens.
            measured: whether the LM's speed is measured by it. It is not measured by the first
                prompts, because these come with requests that find out what a server can do.
        """
        self.tokens += cost.tokens
        if measured:
            self._measured_tokens += cost.tokens
            self._measured_seconds += cost.seconds
            self._measured_estimate += estimated

    @property
    def ratio(self) -> float:
        """The factor by which later estimates are raised.

        It is the number of counted tokens for each estimated token, at least 1.
        """
        if not self._measured_estimate:
            return 1.0
        return max(1.0, self._measured_tokens / self._measured_estimate)

    @property
    def expected(self) -> float:
        """The tokens that the LM has counted for each estimated token, at most 1.

        Estimates take every answer at its longest, and most are shorter.
        """
        if not self._measured_estimate:
            return 1.0
        return min(1.0, self._measured_tokens / self._measured_estimate)

    @property
    def pace(self) -> float:
        """The LM's seconds for each estimated token; 0 before anything was read."""
        if not self._measured_estimate:
            return 0.0
        return self._measured_seconds / self._measured_estimate

    def tokens_left(self) -> float:
        """Return how many more estimated tokens the limit allows."""
        if self.limit is None:
            return math.inf
        return max(0.0, (self.limit - self.tokens) / self.ratio)

    def left(self, reserve: float = 0.0) -> float:
        """Return how many estimated LM tokens may still be read now, at least 0.

        `reserve` estimated LM tokens are kept for later.

        What is read now may take all of its estimate, and must not exceed the limit. What is kept
        for later is kept at the tokens that answers have taken so far.
        """
        rest = self.tokens_left() - self.expected * reserve
        if self.minutes is not None and self.pace:
            rest = min(rest, self.seconds_left / self.pace - reserve)
        return max(0.0, rest)

    def miss(self, tokens: float = 0.0, seconds: float = 0.0, preparing: float = 0.0) -> None:
        """Record work that the budget does not pay for; `hint` uses it.

        Args:
            tokens: its estimated LM tokens.
            seconds: its time besides the LM's.
            preparing: the time of all encoding and training before the race, if that is too long.
        """
        self._missed_tokens += tokens
        self._missed_seconds += seconds
        self._preparing_seconds = max(self._preparing_seconds, preparing)

    def hint(self) -> str:
        """Return the flags of a budget that pays for all the work left out; "" if none was left
        out.

        They are --lm-tokens and --minutes: those whose limit is too low, or all of them if none is.
        """
        if not (self._missed_tokens or self._missed_seconds or self._preparing_seconds):
            return ""
        too_low: dict[str, bool] = {}
        if self.limit is not None:
            in_all = math.ceil(self.tokens + self.ratio * self._missed_tokens)
            too_low[f"--lm-tokens {in_all}"] = in_all > self.limit
        if self.minutes is not None:
            seconds = max(
                (60 * self.elapsed + self._missed_seconds + self._missed_tokens * self.pace)
                / PLANNED,
                self._preparing_seconds / PREPARING,
            )
            too_low[f"--minutes {minutes_for(seconds, 1)}"] = seconds > 60 * self.minutes
        return " ".join([flag for flag, is_too_low in too_low.items() if is_too_low] or too_low)

    def remaining(self) -> str:
        """Return how much time is left, in words.

        Without a limit of minutes, the time in which the remaining tokens are read.
        """
        seconds = self.seconds_left if self.minutes is not None else self.left() * self.pace
        return f"about {duration(max(0.0, seconds))} left"

    def __str__(self) -> str:
        tokens = "" if self.limit is None else f" of {self.limit:,}"
        minutes = "" if self.minutes is None else f" of {self.minutes:g}"
        return f"{self.tokens:,}{tokens} LM tokens, {self.elapsed:.1f}{minutes} minutes"
