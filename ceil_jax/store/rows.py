"""The rows of a stage, made in chunks, with what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

Chunk = Mapping[str, Any]
"""A chunk in a journal of rows: start, rows, seconds, tokens."""

Engine = Callable[[Sequence[tuple[int, int]]], Iterable[Chunk]]
"""The lines of chunks (start, stop), in any order."""


def timed_chunk(
    work: Callable[[int, int], list[Any]], start: int, stop: int, cost: Callable[[], int]
) -> dict[str, Any]:
    """A chunk's line for a journal: its rows, the seconds they took and by how much `cost` grew."""
    rows, seconds, tokens = measured(partial(work, start, stop), stop - start, cost)
    return {"start": start, "rows": rows, "seconds": seconds, "tokens": tokens}


def measured(
    work: Callable[[], list[Any]], count: int, cost: Callable[[], int]
) -> tuple[list[Any], float, int]:
    """The rows that `work` gives, the seconds it took and by how much `cost` grew."""
    began, before = time.perf_counter(), cost()
    rows = work()
    if len(rows) != count:
        raise ValueError(f"{len(rows)} rows for {count} places")
    return rows, round(time.perf_counter() - began, 3), cost() - before


@dataclass(frozen=True)
class Cost:
    """What work took, over all the processes that took part in it."""

    seconds: float
    tokens: int = 0
    """Read by the LM."""


class Rows(list):
    """A stage's rows in order, with what they cost over all the processes that made them."""

    def __init__(self, rows: list[Any], lines: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(rows)
        self.seconds: float = sum(line["seconds"] for line in lines)
        self.tokens: int = round(sum(line["tokens"] for line in lines))
