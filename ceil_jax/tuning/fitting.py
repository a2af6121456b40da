"""The largest search that a budget pays for.

Nothing here asks an LM: prompts and speeds are measured by `probe`, and arrive as numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ceil_jax.methods.row import Row
from ceil_jax.tuning.candidates import candidates
from ceil_jax.tuning.extent import FIRST_ROWS, Extent
from ceil_jax.tuning.verdict import FEWEST_ROWS

LEAST_FINAL = 8
"""Final rows of the smallest search. They are answered even if the budget is spent, so that every
search ends with a table."""

FEWEST_IN_BANK = 96
"""The smallest bank to which one is cut, and on which methods are trained with an LM's scores."""

ROUNDS = 2.0
"""How many first rounds the tokens of a race pay for at least: one round alone would choose by
chance."""

DISPENSABLE = ("random", "mmr", "bm25", "dpp")
"""Methods in the order in which they are left out. Random examples seldom win, and zero examples
and the nearest remain to compare with. MMR chooses much as DPP-MAP does. BM25 was below dense
neighbours on most measured tasks, and DPP-MAP within a point of top-k."""

LAST = ("free", "topk", "zero")
"""The methods of the smallest race."""


class Need(NamedTuple):
    """The LM tokens and the time that a search takes."""

    tokens: float
    """LM tokens."""
    seconds: float
    """Seconds of reading, encoding and learning from outputs."""
    encoding: float
    """The part of the seconds that is not reading."""

    def within(self, tokens: float, seconds: float) -> bool:
        """Return whether so many LM tokens and seconds pay for the search."""
        return self.tokens <= tokens and self.seconds <= seconds


class Costs(NamedTuple):
    """The costs of the parts of a search, measured before it begins."""

    zero: float
    """LM tokens of a prompt without examples, its answer included."""
    tokens: Mapping[int, float]
    """LM tokens of a prompt with K examples, by K."""
    pace: float
    """Seconds that the LM takes for a token."""
    encoding: float
    """Seconds that one encoder takes for a text."""
    classifies: bool = False
    """Whether a classifier is trained on the bank's outputs, beside the candidates; a search without
    a race trains it only in time that is left."""
    encoded: int = 0
    """How many texts the run's encoder has encoded already."""
    learnt: bool = False
    """Whether a head has learnt from the bank's outputs already."""

    def need(self, extent: Extent) -> Need:
        """Return the least that a search needs: the race's first rounds, and four prompts on the
        final rows."""
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
        # learning from the bank's outputs takes about as long as encoding it
        classifies = self.classifies and extent.first > 0
        learns = classifies or any(row.method.is_head for row in extent.methods)
        texts = extent.texts * max(1, len(encoders)) - self.encoded
        if learns and not self.learnt:
            texts += extent.bank
        encoding = self.encoding * max(0, texts)
        return Need(tokens, tokens * self.pace + encoding, encoding)


def smaller(whole: Extent) -> Iterator[Extent]:
    """Yield ever smaller searches, the whole one first.

    What the answer loses least by is cut first:

    1. Final rows beyond 200. An interval narrows with the root of their number: 500 rows take 2.5
       times the tokens of 200, for ± 4.4 in place of ± 6.9 points.
    2. All λ but the middle one: neighbouring values choose nearly the same sets, and they triple
       the candidates of some methods.
    3. The largest values of K, until two are left: a prompt costs in proportion to K, and each
       further example adds less.
    4. Methods that seldom win (`DISPENSABLE`), then those of plugins, the last one first.
    5. Final rows beyond 100; then all encoders but the run's own.
    6. Half the rows of the first round; all K but the smallest; final rows beyond 50.
    7. All methods but `free`, the nearest and zero examples; then final rows beyond 20.
    8. The race: only zero examples and the nearest answer 20 rows, then 8. This shows that
       everything runs, and proves little.
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
    names = [method.name for method in extent.methods]
    plugins = [name for name in reversed(names) if name not in (*DISPENSABLE, *LAST, "free_map")]
    for name in (*DISPENSABLE, *plugins):
        remaining = _without(extent.methods, name)
        if len(extent.methods) > 2 and remaining != extent.methods:
            extent = replace(extent, methods=remaining)
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
    last = tuple(method for method in extent.methods if method.name in LAST)
    extent = replace(extent, methods=last or extent.methods[-1:])
    yield extent
    extent = with_final(20)
    yield extent
    extent = replace(extent, methods=_without(extent.methods, "free") or extent.methods, first=0)
    yield extent
    yield with_final(LEAST_FINAL)


def largest(whole: Extent, costs: Costs, tokens: float, seconds: float) -> Extent:
    """Return the largest part of a search that so many LM tokens and seconds pay for; the smallest
    part if they pay for none."""
    for extent in smaller(whole):
        if costs.need(extent).within(tokens, seconds):
            return extent
    return extent


def with_fewer_texts(whole: Extent, costs: Costs, seconds: float) -> Extent:
    """Return a search whose texts are encoded in half of so many seconds: a part of the bank, of the
    rows to race on and of the final rows, the same of each but for the fewest that say something."""
    encoding = costs.encoding * (whole.texts - costs.encoded)
    share = seconds / 2 / max(1e-9, encoding)
    if share >= 1:
        return whole

    def part(rows: int, fewest: int) -> int:
        return min(rows, max(fewest, int(share * rows)))

    return replace(
        whole,
        bank=part(whole.bank, max(FEWEST_IN_BANK, 2 * max(whole.ks))),
        tuning=part(whole.tuning, 2 * FIRST_ROWS),
        final=part(whole.final, FEWEST_ROWS),
    )


def _without(methods: tuple[Row, ...], name: str) -> tuple[Row, ...]:
    return tuple(method for method in methods if method.name != name)
