"""The options of tuning: the space that is searched, and how many rows are for what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ceil_jax.errors import Range, check_ranges
from ceil_jax.tasks.example import Context


@dataclass(frozen=True)
class Space:
    """The space that is searched; every combination that makes sense is a candidate."""

    methods: tuple[str, ...] = ()
    """The methods, named as in `ceil-jax compare`, and zero; by default all that the data allows, those of --plugin
    included, with free, free_map, epr and ceil of the trained ones."""
    without: tuple[str, ...] = ()
    """Methods to leave out."""
    ks: tuple[Annotated[int, Range(1)], ...] = (2, 4, 8, 16)
    """Numbers of examples."""
    trade_offs: tuple[Annotated[float, Range(above=0)], ...] = (0.01, 0.05, 0.1)
    """λ of methods that have a free one."""
    encoders: tuple[str, ...] = ()
    """Encoders besides --encoder, to be searched too."""
    contexts: tuple[Context, ...] = ("input",)
    """The text of a bank example for trained encoders: its input, or its input and output (example)."""


@dataclass(frozen=True)
class Rows:
    """How many rows to use for what, and when a cheaper prompt will do."""

    tuning_rows: Annotated[int | None, Range(1)] = None
    """Rows to race on, taken from the bank; by default a fifth of it, at least 20 and at most 300."""
    final_rows: Annotated[int | None, Range(1)] = None
    """Held-out rows for the end, looked at once; by default all, at most 500."""
    tolerance: Annotated[float, Range(0, 100)] = 2.0
    """Points of the metric by which a cheaper prompt may look worse than the winner and still be recommended, if it
    is not certainly worse."""

    def __post_init__(self) -> None:
        check_ranges(self)
