"""The budget of a search in LM tokens and minutes. Each step is estimated before it is taken."""

from __future__ import annotations

import math
import time

from ceil_jax.lm.openai.address import is_address
from ceil_jax.pipeline.plan import duration, minutes_for
from ceil_jax.store.cost import Cost

LM_TOKENS = 1_000_000
"""The default budget: 15 minutes of SmolLM2-135M on 2 quiet CPU cores, an hour on busy ones."""


def token_limit(lm_tokens: int | None, minutes: float | None, lm: str) -> int | None:
    """Return the most LM tokens that a search may spend; None for no limit beside the minutes.

    Args:
        lm_tokens: what the user gave; None for the default.
        minutes: the minutes that the user gave.
        lm: the name of the LM. The tokens of a server are paid for, so that minutes alone do not
            lift the default limit of LM_TOKENS there.
    """
    if lm_tokens is None and (minutes is None or is_address(lm)):
        return LM_TOKENS
    return lm_tokens


PLANNED = 0.9
"""The share of the minutes that is planned; the page and the selector take the rest."""


class Budget:
    """The LM tokens and minutes that a search may spend, has spent, and has left.

    Work is estimated by the tokens of its prompts, an upper bound. A server may count more, for
    example for each choice or for a chat template; the ratio is measured as work is done, and
    raises later estimates.

    Args:
        lm_tokens: the most LM tokens to spend; None for no limit beside the minutes.
        minutes: the minutes to spend; None for no limit.
        began: when they began, as `time.perf_counter` has it; by default now.
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
        self._paced = self._paced_tokens = self._seconds = 0.0
        self._began = time.perf_counter() if began is None else began

    @property
    def elapsed(self) -> float:
        """Minutes since the search began."""
        return (time.perf_counter() - self._began) / 60

    @property
    def seconds_left(self) -> float:
        """Seconds of the planned share of the minutes that have not passed."""
        return math.inf if self.minutes is None else 60 * (PLANNED * self.minutes - self.elapsed)

    def out_of_time(self, reserve: float = 0.0, seconds: float = 0.0) -> bool:
        """Return whether the minutes have passed, but for `seconds` and the time that `reserve` LM
        tokens take."""
        return self.seconds_left - seconds < reserve * self.pace

    def spend(self, cost: Cost, estimated: float, *, paced: bool = True) -> None:
        """Add finished work.

        Args:
            cost: what it took, possibly in an earlier process.
            estimated: its estimated LM tokens.
            paced: whether it says how fast the LM is and how it counts. The first prompts do not: a
                server is asked a few questions of its own with them.
        """
        self.tokens += cost.tokens
        if paced:
            self._paced_tokens += cost.tokens
            self._seconds += cost.seconds
            self._paced += estimated

    @property
    def ratio(self) -> float:
        """Factor on later estimates: tokens spent per token estimated, at least 1."""
        return max(1.0, self._paced_tokens / self._paced) if self._paced else 1.0

    @property
    def pace(self) -> float:
        """Seconds that the LM takes for an estimated token; 0 before anything was read."""
        return self._seconds / self._paced if self._paced else 0.0

    def tokens_left(self) -> float:
        """Return the tokens of the limit that are left, in estimated ones."""
        if self.limit is None:
            return math.inf
        return max(0.0, (self.limit - self.tokens) / self.ratio)

    def left(self, reserve: float = 0.0, seconds: float = 0.0) -> float:
        """Return the remaining budget in estimated LM tokens, at least 0, where `reserve` LM tokens
        and `seconds` are kept for later."""
        rest = self.tokens_left()
        if self.minutes is not None and self.pace:
            rest = min(rest, (self.seconds_left - seconds) / self.pace)
        return max(0.0, rest - reserve)

    def needed(self, tokens: float, seconds: float) -> str:
        """Return the flags (--lm-tokens, --minutes) that would allow this much more work."""
        flags = []
        if self.limit is not None:
            flags.append(f"--lm-tokens {math.ceil(self.tokens + self.ratio * tokens)}")
        if self.minutes is not None:
            flags.append(f"--minutes {minutes_for(60 * self.elapsed + seconds, PLANNED)}")
        return " ".join(flags)

    def flags(self) -> str:
        """Return the limits as flags."""
        tokens = "" if self.limit is None else f"--lm-tokens {self.limit}"
        minutes = "" if self.minutes is None else f"--minutes {self.minutes:g}"
        return " ".join(filter(None, (tokens, minutes)))

    def remaining(self) -> str:
        """Return the minutes that are left, or the time that the tokens left take, in words."""
        seconds = self.seconds_left if self.minutes is not None else self.left() * self.pace
        return f"about {duration(max(0.0, seconds))} left"

    def __str__(self) -> str:
        tokens = "" if self.limit is None else f" of {self.limit:,}"
        minutes = "" if self.minutes is None else f" of {self.minutes:g}"
        return f"{self.tokens:,}{tokens} LM tokens, {self.elapsed:.1f}{minutes} minutes"
