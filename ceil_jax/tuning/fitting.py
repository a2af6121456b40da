"""The largest search that a budget pays for, and what it is expected to take.

Nothing here asks an LM: prompts and speeds are measured by `tune`, and arrive as numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ceil_jax.methods.registry import RANDOM_ROW
from ceil_jax.methods.row import Row
from ceil_jax.tuning.candidates import candidates
from ceil_jax.tuning.extent import FIRST_ROWS, Extent

LEAST_FINAL = 8
"""Final rows of the smallest search. They are answered whatever the budget says, so that every
search ends with a table."""

ROUNDS = 2.0
"""The race is given as much as so many first rounds at least: the first alone would choose by
chance."""

DISPENSABLE = ("random", "mmr", "bm25", "dpp")
"""Methods in the order in which they are left out. Random examples are the yardstick, seldom the
winner, and zero examples and the nearest stay; MMR chooses much as DPP-MAP does; BM25 has been
below dense neighbours on most tasks measured; DPP-MAP within a point of top-k on them."""

LAST = ("free", "topk", "zero")
"""The methods of the smallest race that still answers the question."""


class Need(NamedTuple):
    """The LM tokens and the time that a search takes."""

    tokens: float
    """LM tokens."""
    seconds: float
    """Reading, encoding and learning from outputs."""
    encoding: float
    """The part of the seconds that is not reading."""


class Costs(NamedTuple):
    """The costs of the parts of a search, measured before it begins."""

    zero: float
    """LM tokens of a prompt without examples, its answer included."""
    tokens: Mapping[int, float]
    """LM tokens of a prompt with K examples, by K."""
    pace: float
    """Seconds that the LM takes for a token."""
    encoding: float
    """Seconds that one encoder takes for all texts."""
    classifies: bool = False
    """Whether a classifier learns from the bank's outputs besides what is searched."""
    done: float = 0.0
    """Seconds of encoding that are over."""

    def need(self, extent: Extent) -> Need:
        """Return the least cost of a search: the race's first rounds, and four prompts on the final
        rows."""
        racing = candidates(extent)
        race = sum(
            self.tokens[candidate.shots] if candidate.shots else self.zero for candidate in racing
        )
        largest = max(
            (self.tokens[candidate.shots] for candidate in racing if candidate.shots), default=0.0
        )
        final = self.zero + self.tokens[extent.plain]
        if extent.first:
            final += 2 * largest
        tokens = ROUNDS * extent.first * race + 1.1 * extent.final * final
        encoders = {candidate.encoder for candidate in racing if candidate.row.encodes}
        encoding = 0.0
        if extent.vectors:
            # learning from the bank's outputs takes about as long as encoding it
            learns = self.classifies or any(row.method.is_head for row in extent.table_rows)
            encoding = self.encoding * (max(1, len(encoders)) + learns)
            encoding = max(0.0, encoding - self.done)
        return Need(tokens, tokens * self.pace + encoding, encoding)


def smaller(whole: Extent) -> Iterator[Extent]:
    """Ever smaller searches, the whole one first.

    The order is that of what the answer loses least by:

    1. Final rows beyond 200. An interval narrows with their root: 500 in place of 200 rows take
       2.5 times the tokens for ± 4.4 in place of ± 6.9 points.
    2. All λ but the middle one: neighbouring values choose nearly the same sets, and they triple
       the candidates of some methods.
    3. The largest K's, down to two: a prompt costs in proportion to K, and what more examples add
       shrinks as there are more.
    4. Methods that seldom win (`DISPENSABLE`), then those of plugins, the last named first.
    5. Final rows down to 100; encoders beside the run's own.
    6. A first round of half the rows, one K, final rows down to 50.
    7. All methods but `free`, the nearest and zero examples; then 20 final rows.
    8. No race: zero examples and the nearest on 20 rows, then on 8. That shows that everything
       runs, and proves little.

    Where encoding alone takes too long, random examples then take the place of the nearest
    (`without_vectors`).
    """
    extent = whole
    yield extent

    def with_final(rows: int) -> Extent:
        return replace(extent, final=min(extent.final, rows))

    extent = with_final(200)
    yield extent
    if len(extent.trade_offs) > 1:
        middle = sorted(extent.trade_offs)[len(extent.trade_offs) // 2]
        extent = replace(extent, trade_offs=(middle,))
        yield extent
    while len(extent.ks) > 2:
        extent = replace(extent, ks=extent.ks[:-1])
        yield extent
    names = [row.name for row in extent.table_rows]
    plugins = [name for name in reversed(names) if name not in (*DISPENSABLE, *LAST, "free_map")]
    for name in (*DISPENSABLE, *plugins):
        if name == "random" and not extent.vectors:
            continue
        if len(extent.table_rows) > 2 and len(rest := _without(extent.table_rows, name)) < len(
            extent.table_rows
        ):
            extent = replace(extent, table_rows=rest)
            yield extent
    extent = with_final(100)
    yield extent
    if extent.encoders:
        extent = replace(extent, encoders=())
        yield extent
    extent = replace(extent, first=min(extent.first, FIRST_ROWS // 2))
    yield extent
    extent = replace(extent, ks=extent.ks[:1])
    yield extent
    extent = with_final(50)
    yield extent
    last = LAST if extent.vectors else ("random", "zero")
    kept = tuple(row for row in extent.table_rows if row.name in last) or extent.table_rows[-1:]
    extent = replace(extent, table_rows=kept)
    yield extent
    extent = with_final(20)
    yield extent
    extent = replace(extent, table_rows=_without(kept, "free") or kept, first=0)
    yield extent
    yield with_final(LEAST_FINAL)


def without_vectors(whole: Extent) -> Extent:
    """Return a search without the rows that need vectors, with random examples in place of the
    nearest."""
    rows = tuple(row for row in whole.table_rows if not row.encodes)
    if "random" not in [row.name for row in rows]:
        rows = (*rows, RANDOM_ROW)
    return replace(whole, table_rows=rows, encoders=(), vectors=False)


class Forecast(NamedTuple):
    """The search that is planned, and what it is expected to take."""

    whole: Extent
    """The search that a larger budget would pay for."""
    extent: Extent
    text: str
    """Speed, sizes, tokens and minutes, in one line."""
    flags: str
    """The budget, as flags."""
    all_of_it: str
    """The flags that would pay for the whole."""
    fits: bool = True
    """Whether it fits; else it is the smallest search that there is."""

    @property
    def cut(self) -> str:
        """A line on what was cut to fit, and on what all of it would take; "" where nothing was."""
        return self.cut_after(self.extent.final)

    def cut_after(self, final: int) -> str:
        """Return what `cut` says once so many final rows have been answered."""
        parts = replace(self.extent, final=final).cut_from(self.whole)
        return parts and f"cut to fit {self.flags}: {parts} (for all of it: {self.all_of_it})"


def _without(rows: tuple[Row, ...], name: str) -> tuple[Row, ...]:
    return tuple(row for row in rows if row.name != name)
