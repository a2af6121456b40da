"""The cost of a computation: seconds, and tokens that a language model read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """The cost of some work, summed over all processes that took part."""

    seconds: float = 0.0
    tokens: int = 0
    """Tokens that the LM read."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.tokens + other.tokens)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.seconds - other.seconds, self.tokens - other.tokens)
