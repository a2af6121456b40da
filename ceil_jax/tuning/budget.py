"""The budget of a search in LM tokens and minutes. Each step is estimated before it is taken."""

from __future__ import annotations

import math
import time

from ceil_jax.store.cost import Cost

LM_TOKENS = 1_000_000
"""The default budget: about 10 to 15 minutes of SmolLM2-135M on 2 CPU cores."""


class Budget:
    """What a search may spend, what it has spent, and what is left.

    Work is estimated by the tokens of its prompts, an upper bound. A server may count more, for
    example for each choice or for a chat template; the ratio is measured as work is done, and
    raises later estimates. The minutes are from now on; without them and without `lm_tokens`, the
    limit is 1,000,000 LM tokens.
    """

    def __init__(self, lm_tokens: int | None = None, minutes: float | None = None) -> None:
        self.limit = LM_TOKENS if lm_tokens is None and minutes is None else lm_tokens
        self.minutes = minutes
        self.tokens = 0
        self._estimated = self._seconds = 0.0
        self._began = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Minutes since the search began."""
        return (time.perf_counter() - self._began) / 60

    @property
    def out_of_time(self) -> bool:
        return self.minutes is not None and self.elapsed > self.minutes

    def spend(self, cost: Cost, estimated: float) -> None:
        """Add finished work: its cost, possibly in an earlier process, and its estimated LM
        tokens."""
        self.tokens += cost.tokens
        self._seconds += cost.seconds
        self._estimated += estimated

    @property
    def ratio(self) -> float:
        """Factor on later estimates: tokens spent per token estimated, at least 1."""
        return max(1.0, self.tokens / self._estimated) if self._estimated else 1.0

    def _minutes(self, tokens: float) -> float:
        return tokens * self._seconds / self._estimated / 60 if self._estimated else 0.0

    def left(self) -> float:
        """Return the remaining budget in estimated LM tokens, at least 0."""
        rest = math.inf if self.limit is None else (self.limit - self.tokens) / self.ratio
        if self.minutes is not None and (pace := self._minutes(1)):
            rest = min(rest, (self.minutes - self.elapsed) / pace)
        return max(0.0, rest)

    def needed(self, tokens: float) -> str:
        """Return the limits that further work of so many estimated LM tokens would take, as
        flags."""
        flags = []
        if self.limit is not None:
            flags.append(f"--lm-tokens {math.ceil(self.tokens + self.ratio * tokens)}")
        if self.minutes is not None:
            flags.append(f"--minutes {self.elapsed + self._minutes(tokens):.1f}")
        return " ".join(flags)

    def __str__(self) -> str:
        tokens = "" if self.limit is None else f" of {self.limit:,}"
        minutes = "" if self.minutes is None else f" of {self.minutes:g}"
        return f"{self.tokens:,}{tokens} LM tokens, {self.elapsed:.1f}{minutes} minutes"
