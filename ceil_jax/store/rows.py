"""The rows of a stage, made in chunks, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

Chunk = Mapping[str, Any]
"""Some consecutive rows as a line of a journal: start, rows, seconds, tokens, and the stage they are of."""

Engine = Callable[[Sequence[tuple[int, int]]], Iterable[Chunk]]
"""Makes the chunks of the given (start, stop), in any order."""


@dataclass(frozen=True)
class Cost:
    """The cost of work, added up over all processes that took part in it."""

    seconds: float
    tokens: int = 0
    """Tokens that the LM read."""


class Rows(list):
    """The rows of a stage, in order, with what they cost.

    Args:
        rows: one JSON value a row.
        chunks: the chunks that the rows came in, whose costs are added up.
    """

    def __init__(self, rows: list[Any], chunks: Sequence[Chunk]) -> None:
        super().__init__(rows)
        self.seconds: float = sum(chunk["seconds"] for chunk in chunks)
        self.tokens: int = round(sum(chunk["tokens"] for chunk in chunks))


def chunk_length(start: int, total: int, chunk: int) -> int:
    """Return how many rows the chunk has that begins at `start`; 0 where no chunk begins.

    Args:
        start: the chunk's first row.
        total: rows in all.
        chunk: rows a chunk; only the last chunk may be shorter.
    """
    return min(chunk, total - start) if start in range(0, total, chunk) else 0


def timed_chunk(
    work: Callable[[int, int], list[Any]], start: int, stop: int, cost: Callable[[], int]
) -> dict[str, Any]:
    """Make a chunk and measure it.

    Args:
        work: (start, stop) -> one JSON value a row.
        start: the first row.
        stop: the row after the last one.
        cost: a running count, of LM tokens for example; its increase is kept with the chunk.

    Returns:
        The chunk's start, rows, seconds and tokens.

    Raises:
        ValueError: `work` gave another number of rows.
    """
    rows, seconds, tokens = measured(partial(work, start, stop), stop - start, cost)
    return {"start": start, "rows": rows, "seconds": seconds, "tokens": tokens}


def measured(
    work: Callable[[], list[Any]], count: int, cost: Callable[[], int]
) -> tuple[list[Any], float, int]:
    """Return the rows that `work` gives, the seconds it took and by how much `cost` grew.

    Raises:
        ValueError: `work` did not give `count` rows.
    """
    began, before = time.perf_counter(), cost()
    rows = work()
    if len(rows) != count:
        raise ValueError(f"{len(rows)} rows for {count} places")
    return rows, round(time.perf_counter() - began, 3), cost() - before
