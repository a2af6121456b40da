"""The selection for one query: the chosen examples, and the prompt made of them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ceil_jax.lm.prompts import examples_text, prompt_text
from ceil_jax.tasks.example import Example, Template

Stopped = Literal["k", "token_budget", "exhausted"]
"""Why a selection has no more examples: there are k; the rest does not fit the token budget; or the shortlist has no
other question."""


class Selected(NamedTuple):
    """One chosen example."""

    example: Example
    relevance: float
    """(1 + cos) / 2 with the query."""
    gain: float
    """The increase of log det L'_S when the example was chosen; −inf for a combination of those before."""


class Displaced(NamedTuple):
    """An example that relevance alone would have chosen, and that the set did without."""

    example: Example
    relevance: float
    nearest: Example
    """The chosen example that it is most like."""
    cosine: float
    """Their cosine."""


@dataclass(frozen=True, repr=False)
class Selection:
    """The examples chosen for one query; its length is their number, and iterating gives the examples."""

    query: Example
    picks: tuple[Selected, ...]
    """The examples in prompt order: the most relevant last, next to the query; ties in reverse order of choice."""
    stopped: Stopped
    """Why there are no more."""
    tokens: int | None
    """The number of tokens of `text`; None where no token budget was given."""
    template: Template
    trade_off: float
    """The λ that was used."""
    order: tuple[int, ...] = ()
    """The places in `picks`, in the order in which they were chosen."""
    best: float = 0.0
    """The highest relevance among the shortlist."""
    displaced: tuple[Displaced, ...] = ()
    """The examples that relevance alone would have chosen instead, most relevant first."""
    excluded: int = 0
    """The number of examples left out because they ask the query's own question."""
    repeats: int = 0
    """The number of chosen examples that repeat others, taken because no different ones were left."""

    def __len__(self) -> int:
        return len(self.picks)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    def __repr__(self) -> str:
        ids = ", ".join(repr(example.id) for example in self)
        tokens = "" if self.tokens is None else f", tokens={self.tokens}"
        shown = f"Selection({shortened(self.query.input, 40)!r}: [{ids}], stopped={self.stopped!r}{tokens}"
        return f"{shown}, repeats={self.repeats})" if self.repeats else f"{shown})"

    def explain(self) -> Explanation:
        """Return why each example was chosen: a text when printed, a table in a notebook."""
        # gain = (r − max r) / λ + log d², so that d² follows from what a selection keeps
        displaced = iter(self.displaced)
        by_relevance = sorted((pick.relevance for pick in self.picks), reverse=True)
        both = len(self.picks) - len(self.displaced)
        least = by_relevance[both - 1] if both else math.inf
        reasons = []
        for place in self.order:
            example, relevance, gain = self.picks[place]
            added = math.exp(min(gain - (relevance - self.best) / self.trade_off, 0.0))
            # what relevance alone would not have chosen is matched, in the order of choice, with what it would have
            instead = next(displaced, None) if relevance < least else None
            reasons.append(Reason(example, relevance, added, instead))
        query = shortened(self.query.input, 60)
        title = f"{len(self)} examples for {query!r}, λ = {self.trade_off:g}, stopped: {self.stopped}"
        title += f", {self.repeats} of them repeat others" if self.repeats else ""
        title += f", {self.excluded} of the query's own question left out" if self.excluded else ""
        return Explanation(title, tuple(reasons))

    @property
    def examples(self) -> list[Example]:
        """The examples in prompt order."""
        return [pick.example for pick in self.picks]

    @property
    def text(self) -> str:
        """The examples as they appear before the query, each followed by the separator."""
        return examples_text(self.template, self.examples)

    @property
    def prompt(self) -> str:
        """`text` and the query, up to where the answer begins."""
        return prompt_text(self.template, self.examples, self.query)


class Reason(NamedTuple):
    """Why one example was chosen."""

    example: Example
    relevance: float
    """(1 + cos) / 2 with the query."""
    added: float
    """The share of the example, from 1 down to 0, that those chosen before it do not cover; d² in greedy MAP."""
    displaced: Displaced | None
    """The more relevant example that it stands in place of, if any."""


@dataclass(frozen=True)
class Explanation:
    """Why the examples of a selection were chosen, in the order of choice."""

    title: str
    reasons: tuple[Reason, ...]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells of the table, its head first."""
        found: list[tuple[str, ...]] = [("", "relevance", "added", "example", "in place of")]
        for number, (example, relevance, added, displaced) in enumerate(self.reasons, 1):
            instead = ""
            if displaced:
                near = f"which is like {displaced.nearest.id} (cosine {displaced.cosine:.2f})"
                instead = f"{displaced.example.id} (relevance {displaced.relevance:.3f}), {near}"
            text = f"{example.id}: {shortened(example.input, 60)}"
            found.append((str(number), f"{relevance:.3f}", f"{added:.2f}", text, instead))
        return found

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in self.rows
        )
        return "\n".join([self.title, *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        lines = []
        for number, row in enumerate(self.rows):
            tag = "td" if number else "th"
            cells = (f"<{tag} style='text-align:left'>{html.escape(cell)}</{tag}>" for cell in row)
            lines.append(f"<tr>{''.join(cells)}</tr>")
        return f"<table><caption>{html.escape(self.title)}</caption>{''.join(lines)}</table>"


def shortened(text: str, length: int) -> str:
    """Return a text on one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"
