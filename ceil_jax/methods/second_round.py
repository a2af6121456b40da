"""A second round of EPR's training (not from a paper).

The LM scores the single examples nearest by EPR's encoder, and CEIL's loss learns to rank them.

It is CEIL with sets of one example. On three tasks it was not measurably different from CEIL, for
half the LM tokens (docs/results.md, "What teaches").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from ceil_jax.errors import Range
from ceil_jax.methods.ceil import LearnsFromSets


@dataclass(frozen=True)
class SecondRound(LearnsFromSets):
    """Training on the LM's scores of single examples, the nearest ones by EPR's encoder."""

    name: ClassVar[str] = "second_round"
    title: ClassVar[str] = "second round"
    trade_off: Annotated[float | Literal["tuned"], Range(above=0)] = 0.001
    """λ: the temperature of the relevances in the loss. A single example has no determinant."""

    @property
    def set_size(self) -> int:
        """Always 1: a candidate set is a single example."""
        return 1
