"""The untrained encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ceil_jax.methods.base import Learnt, Method, Steps


@dataclass(frozen=True)
class Untrained(Method):
    """The untrained encoder, for queries and examples.

    Examples:
        >>> from ceil_jax import CEIL
        >>> CEIL(start=Untrained()).start.title
        'the untrained encoder'
    """

    name: ClassVar[str] = "base"
    title: ClassVar[str] = "the untrained encoder"

    @property
    def learns(self) -> bool:
        """Always False: nothing is trained."""
        return False

    def learn(self, steps: Steps) -> Learnt:
        """Return the encoder as it was loaded."""
        return steps.untrained()
