"""A second round of EPR's training (no paper's): single examples near by EPR's encoder, which the LM
scores, ranked by CEIL's loss.

It is CEIL with sets of one example. On three tasks no difference between the two was seen, for half
of the LM tokens (docs/results.md, "What teaches").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from ceil_jax.errors import Range
from ceil_jax.methods.ceil import CEIL


@dataclass(frozen=True)
class SecondRound(CEIL):
    """Training on single examples that EPR's encoder finds near."""

    name: ClassVar[str] = "second_round"
    title: ClassVar[str] = "second round"
    size: ClassVar[int] = 1  # type: ignore[misc]  # a setting of CEIL, none of this method
    trade_off: Annotated[float | Literal["tuned"], Range(above=0)] = 0.001
    """λ: the temperature of the relevances in the loss. A single example has no determinant."""
