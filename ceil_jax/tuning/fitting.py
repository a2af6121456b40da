"""How much is searched: the largest search that a budget pays for, and what it is expected to
take.

Nothing here asks an LM: prompts and speeds are measured by `tune`, and arrive as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

FIRST_ROWS = 16
"""Rows of the first round of a race, if the budget pays for them."""

LEAST_FINAL = 8
"""Final rows of the smallest search. They are answered whatever the budget says, so that every
search ends with a table."""

PLAIN_SHOTS = 8
"""K of the plain prompt of a race."""

ROUNDS = 2.0
"""The race is given as much as so many first rounds at least: the first alone would choose by
chance."""

DISPENSABLE = ("random", "mmr", "bm25", "dpp")
"""Methods in the order in which they are left out. Random examples are the yardstick, seldom the
winner, and zero examples and the nearest stay; MMR chooses much as DPP-MAP does; BM25 has been
below dense neighbours on most tasks measured; DPP-MAP within a point of top-k on them."""

LAST = ("free", "topk", "zero")
"""The methods of the smallest race that still answers the question."""


@dataclass(frozen=True)
class Extent:
    """What is searched, and on how many rows."""

    methods: tuple[str, ...]
    ks: tuple[int, ...]
    trade_offs: tuple[float, ...]
    encoders: tuple[str, ...]
    """The encoders besides the run's own."""
    first: int
    """Rows of the first round; 0 without a race."""
    final: int
    """Final rows."""
    vectors: bool = True
    """Whether texts are encoded at all."""

    @property
    def plain(self) -> int:
        """K of the plain prompt, with which every choice is compared."""
        return PLAIN_SHOTS if self.first else self.ks[0]

    def cut_from(self, whole: Extent, label: Callable[[str], str]) -> str:
        """Return what this one lacks of a larger one, in words; "" where nothing.

        Args:
            whole: the larger one.
            label: the name of a method in tables.
        """
        parts = []
        if self.final < whole.final:
            parts.append(f"{self.final} of {whole.final} final rows")
        if not self.vectors:
            parts.append("random examples in place of the nearest, for encoding takes too long")
        if not self.first:
            return "; ".join([*parts, "no race"])
        if self.first < whole.first:
            parts.append(f"{self.first} of {whole.first} rows in the first round")
        if self.trade_offs != whole.trade_offs:
            parts.append(f"only λ = {_listed(self.trade_offs)}")
        if self.ks != whole.ks:
            parts.append(f"only K = {_listed(self.ks)}")
        parts += [f"no encoder {name}" for name in whole.encoders if name not in self.encoders]
        gone = [label(name) for name in whole.methods if name not in self.methods]
        parts += [f"no {', no '.join(gone)}"] if gone else []
        return "; ".join(parts)


class Need(NamedTuple):
    """What a search takes."""

    tokens: float
    """LM tokens."""
    seconds: float
    """Reading and encoding."""
    encoding: float
    """The part of the seconds that is encoding."""


class Costs(NamedTuple):
    """What the parts of a search take, measured before it begins."""

    zero: float
    """LM tokens of a prompt without examples, its answer included."""
    tokens: Mapping[int, float]
    """LM tokens of a prompt with K examples, by K."""
    pace: float
    """Seconds that the LM takes for a token."""
    encoding: float
    """Seconds that one encoder takes for all texts."""
    encoded: frozenset[str]
    """The methods that need vectors."""

    def need(self, extent: Extent, candidates: Sequence[tuple[str, int, str]]) -> Need:
        """Return the least cost of a search: the race's first rounds, and four prompts on the final
        rows.

        Args:
            extent: the search.
            candidates: its candidates: method, K, and the encoder if it is not the run's own.
        """
        race = sum(self.tokens[shots] if shots else self.zero for _, shots, _ in candidates)
        largest = max((self.tokens[shots] for _, shots, _ in candidates if shots), default=0.0)
        final = self.zero + self.tokens[extent.plain]
        if extent.first:
            final += 2 * largest
        tokens = ROUNDS * extent.first * race + 1.1 * extent.final * final
        encoders = {encoder for name, _, encoder in candidates if name in self.encoded}
        encoding = self.encoding * max(1, len(encoders)) if extent.vectors else 0.0
        # learning from the bank's outputs takes about as long as encoding it
        encoding *= 1 + any(name.startswith("free") for name in extent.methods)
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
    plugins = [
        name for name in reversed(extent.methods) if name not in (*DISPENSABLE, *LAST, "free_map")
    ]
    for name in (*DISPENSABLE, *plugins):
        if name == "random" and not extent.vectors:
            continue
        if name in extent.methods and len(extent.methods) > 2:
            extent = replace(extent, methods=_without(extent.methods, name))
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
    kept = tuple(name for name in extent.methods if name in last) or extent.methods[-1:]
    extent = replace(extent, methods=kept)
    yield extent
    extent = with_final(20)
    yield extent
    extent = replace(extent, methods=_without(kept, "free") or kept, first=0)
    yield extent
    yield with_final(LEAST_FINAL)


def without_vectors(whole: Extent, encoded: frozenset[str]) -> Extent:
    """Return a search without the methods that need vectors (`encoded`), with random examples in
    place of the nearest."""
    left = tuple(name for name in whole.methods if name not in encoded)
    methods = left if "random" in left else (*left, "random")
    return replace(whole, methods=methods, encoders=(), vectors=False)


class Forecast(NamedTuple):
    """What will be searched, and what it is expected to take."""

    extent: Extent
    text: str
    """Speed, sizes, tokens and minutes, in one line."""
    cut: str = ""
    """What was cut to fit, and what all of it would take, in one line; "" where nothing was."""


def minutes_for(seconds: float, share: float) -> str:
    """Return the --minutes that work of so many seconds needs, if a share of them is planned;
    rounded up."""
    value = seconds / 60 / share - 1e-6
    return f"{math.ceil(value):,}" if value > 1 else f"{math.ceil(10 * max(value, 0)) / 10:g}"


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(one for one in names if one != name)


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
