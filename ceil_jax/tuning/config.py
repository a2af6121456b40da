"""The settings of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ceil_jax.errors import Range, check_ranges

HELD_OUT = 0.2
"""Share of the rows to race on, and share of the final rows."""


@dataclass(frozen=True)
class TuneConfig:
    """The candidates of a search, its rows of data and its budget."""

    method: tuple[str, ...] = ()
    """The methods to search, by their names in compare; a selector must be able to use them. By
    default these, if the data allows them: zero topk dpp, free free_map, the methods that --plugin
    registers, and if the budget pays for them fixed fixed_near epr ceil."""
    ks: tuple[Annotated[int, Range(1)], ...] = (2, 4, 8, 16)
    """The numbers of examples in a prompt (K) to search."""
    trade_offs: tuple[Annotated[float, Range(above=0)], ...] = (0.01, 0.05, 0.1)
    """The values of λ to search, for methods that choose a set: the weight of diversity against
    nearness to the query."""
    encoders: tuple[str, ...] = ()
    """Encoders to search besides --encoder."""
    lm_tokens: Annotated[int | None, Range(1)] = None
    """LM tokens in all: for the tuning rows, for scores to train on, and for the final rows. By
    default 1,000,000; with --minutes there is no limit, except for a server, whose tokens cost
    money. What does not fit is left out and reported."""
    minutes: Annotated[float | None, Range(above=0)] = None
    """Finish within this many minutes. What does not fit is left out and reported."""
    tuning_rows: Annotated[int | None, Range(1)] = None
    """Rows for the race, taken from the bank; by default a fifth of it, at least 20 and at most
    300."""
    final_rows: Annotated[int | None, Range(1)] = None
    """Held-out rows for the final comparison, used once; by default all, at most 500."""
    tolerance: Annotated[float, Range(0, 100)] = 2.0
    """The expected loss, in points of the metric, up to which a cheaper prompt is recommended. With
    few rows the expected loss is large even if the two prompts score the same."""

    def __post_init__(self) -> None:
        check_ranges(self)
