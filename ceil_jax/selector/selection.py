"""The selection for one query: the chosen examples, and the prompt made of them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ceil_jax.lm.prompts import examples_text, prompt_text
from ceil_jax.tasks.example import Example, Template

Stopped = Literal["k", "token_budget", "exhausted"]
"""Why a selection has no more examples: k were asked for; the rest does not fit the token budget; or no
other example of the shortlist says anything new: the rest are linear combinations of chosen ones, such as copies."""


class Selected(NamedTuple):
    """One chosen example."""

    example: Example
    relevance: float
    """(1 + cos) / 2 with the query."""
    gain: float
    """The increase of log det L'_S when the example was chosen."""


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

    def __len__(self) -> int:
        return len(self.picks)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    def __repr__(self) -> str:
        ids = ", ".join(repr(example.id) for example in self)
        tokens = "" if self.tokens is None else f", tokens={self.tokens}"
        return f"Selection({shortened(self.query.input, 40)!r}: [{ids}], stopped={self.stopped!r}{tokens})"

    def explain(self) -> Explanation:
        """Return why each example was chosen: a text when printed, a table in a notebook."""
        return explain(self)

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

    def __str__(self) -> str:
        rows = [HEADER, *(cells(number, reason) for number, reason in enumerate(self.reasons, 1))]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        )
        return "\n".join([self.title, *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        def row(values: Sequence[str], tag: str) -> str:
            filled = "".join(
                f"<{tag} style='text-align:left'>{html.escape(value)}</{tag}>" for value in values
            )
            return f"<tr>{filled}</tr>"

        body = "".join(row(cells(number, reason), "td") for number, reason in enumerate(self.reasons, 1))
        head = row(HEADER, "th")
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>"


HEADER = ("", "relevance", "added", "example", "in place of")


def explain(selection: Selection) -> Explanation:
    """See `Selection.explain`.

    gain = (r − max r) / λ + log d², so that d² follows from what a selection keeps. The examples that relevance alone
    would not have chosen are matched, in the order of choice, with those that it would have.
    """
    displaced = iter(selection.displaced)
    by_relevance = sorted((pick.relevance for pick in selection.picks), reverse=True)
    both = len(selection.picks) - len(selection.displaced)
    least = by_relevance[both - 1] if both else math.inf
    reasons = []
    for place in selection.order:
        example, relevance, gain = selection.picks[place]
        added = math.exp(min(gain - (relevance - selection.best) / selection.trade_off, 0.0))
        instead = next(displaced, None) if relevance < least else None
        reasons.append(Reason(example, relevance, added, instead))
    query = shortened(selection.query.input, 60)
    title = (
        f"{len(selection)} examples for {query!r}, λ = {selection.trade_off:g}, stopped: {selection.stopped}"
    )
    return Explanation(title, tuple(reasons))


def cells(number: int, reason: Reason) -> tuple[str, ...]:
    """Return a row of the table."""
    instead = ""
    if reason.displaced:
        example, relevance, nearest, cosine = reason.displaced
        instead = (
            f"{example.id} (relevance {relevance:.3f}), which is like {nearest.id} (cosine {cosine:.2f})"
        )
    text = f"{reason.example.id}: {shortened(reason.example.input, 60)}"
    return str(number), f"{reason.relevance:.3f}", f"{reason.added:.2f}", text, instead


def shortened(text: str, length: int) -> str:
    """Return a text on one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"
