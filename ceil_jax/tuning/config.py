"""The settings of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ceil_jax.errors import Range, check_ranges


@dataclass(frozen=True)
class TuneConfig:
    """The candidates of a search, its rows and its budget."""

    methods: tuple[str, ...] = ()
    """The methods, named as in `ceil-jax compare`, and zero; by default all that the data allows,
    those of --plugin included, with free, free_map, epr and ceil of the trained ones."""
    ks: tuple[Annotated[int, Range(1)], ...] = (2, 4, 8, 16)
    """Numbers of examples."""
    trade_offs: tuple[Annotated[float, Range(above=0)], ...] = (0.01, 0.05, 0.1)
    """λ of methods that have a free one."""
    encoders: tuple[str, ...] = ()
    """Encoders besides --encoder, to be searched too."""
    lm_tokens: Annotated[int | None, Range(1)] = None
    """LM tokens in all: of tuning, of training's scores and of the final rows. 1,000,000 without
    --minutes."""
    minutes: Annotated[float | None, Range(above=0)] = None
    """End within so many minutes."""
    tuning_rows: Annotated[int | None, Range(1)] = None
    """Rows to race on, taken from the bank; by default a fifth of it, at least 20 and at most
    300."""
    final_rows: Annotated[int | None, Range(1)] = None
    """Held-out rows for the end, looked at once; by default all, at most 500."""
    tolerance: Annotated[float, Range(0, 100)] = 2.0
    """Points of the metric by which a cheaper prompt may look worse than the winner and still be
    recommended, if it is not certainly worse."""

    def __post_init__(self) -> None:
        check_ranges(self)
