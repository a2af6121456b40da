"""The selection for one query: the chosen examples, and the prompt made from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ceil_jax.lm.messages import Message
from ceil_jax.lm.prompts import Prompt, examples_text
from ceil_jax.tasks.example import Example

Stopped = Literal["k", "token_budget", "exhausted", "min_relevance"]
"""The reason why a selection has no more examples. k: there are k; token_budget: the others do not
fit; exhausted: the shortlist has no other question; min_relevance: the others are not relevant
enough."""


class Selected(NamedTuple):
    """One chosen example."""

    example: Example
    relevance: float
    """(1 + cos) / 2 with the query, on the scale of the selector's `origin`."""
    gain: float
    """The increase of log det L'_S when the example was chosen; −inf if its vector is a linear
    combination of those before. Without a λ, only the order of gains has a meaning."""
    added: float
    """How much of the example is new compared with those chosen before, from 1 down to 0: d² in
    greedy MAP."""
    fixed: bool = False
    """Whether it is a fixed example, which is in every prompt; its gain is then 0 and `added` 1."""


@dataclass(frozen=True, repr=False)
class Selection:
    """The examples chosen for one query. Its length is their number; iterating over it gives the
    examples.

    Examples:
        >>> from ceil_jax import CeilSelector
        >>> rows = [{"input": "a dull film", "output": "bad"}, {"input": "great fun", "output": "good"}]
        >>> template = "{input} It is {output}"
        >>> selector = CeilSelector.from_examples(rows, encoder="tiny", template=template)
        >>> selection = selector.select("what fun", k=1)
        >>> selection.stopped, [example.output for example in selection]
        ('k', ['good'])
        >>> selection.prompt
        'great fun It is good\\nwhat fun It is'
        >>> [message["content"] for message in selection.messages]
        ['great fun It is', 'good', 'what fun It is']
    """

    query: Example
    picks: tuple[Selected, ...]
    """The examples in prompt order: fixed ones first, then the others with the most relevant last,
    next to the query. Ties are in reverse order of choice."""
    stopped: Stopped
    tokens: int | None
    """The number of tokens of `text`; None without a token budget."""
    layout: Prompt
    """The form of the prompt, with the instruction as the LM reads it."""
    trade_off: float | None
    """λ; None for the nearest examples."""
    excluded: int = 0
    """The number of examples that were left out because they are the query's own question."""
    repeats: int = 0
    """The number of chosen examples that repeat others; they were taken because no different ones were left."""
    input_key: str = "input"
    output_key: str = "output"
    """`input_key` and `output_key` are the names of input and output in the selector's rows."""
    min_relevance: float | None = None
    """The lowest relevance of a chosen example; None for no limit."""
    distant: float | None = None
    """The relevance of the nearest example that this limit left out; None if it left out none."""

    def __len__(self) -> int:
        return len(self.picks)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    def __repr__(self) -> str:
        ids = ", ".join(repr(example.id) for example in self)
        tokens = "" if self.tokens is None else f", tokens={self.tokens}"
        text = (
            f"Selection({shortened(self.query.input, 40)!r}: [{ids}], "
            f"stopped={self.stopped!r}{tokens}"
        )
        return f"{text}, repeats={self.repeats})" if self.repeats else f"{text})"

    def explain(self) -> str:
        """Return a table of the examples in prompt order, with their relevance.

        It also says how much each added to those before.
        """
        how = "the nearest" if self.trade_off is None else f"λ = {self.trade_off:g}"
        title = f"{len(self)} examples for {shortened(self.query.input, 60)!r}, {how}"
        title += f", stopped: {self.stopped}"
        if self.stopped == "min_relevance":
            nearest = "the next nearest" if self.picks else "the nearest"
            title += f" ({nearest} has {self.distant:.3f}, below {self.min_relevance:g})"
        title += f", {self.repeats} of them repeat others" if self.repeats else ""
        title += (
            f", {self.excluded} with the query's own question left out" if self.excluded else ""
        )
        rows = [
            f"{pick.relevance:9.3f}  {'fixed' if pick.fixed else f'{pick.added:5.2f}'}  "
            f"{pick.example.id}: {shortened(pick.example.input, 60)}"
            for pick in self.picks
        ]
        return "\n".join([title, "relevance  added  example", *rows])

    @property
    def examples(self) -> list[Example]:
        """The examples in prompt order."""
        return [pick.example for pick in self.picks]

    @property
    def text(self) -> str:
        """The part of `prompt` before the query.

        The instruction and the examples, each followed by the separator.
        """
        return self.layout.opening + examples_text(self.layout.template, self.examples)

    @property
    def prompt(self) -> str:
        """The prompt as one text: `text` followed by the query, up to where the answer begins."""
        return self.layout.text(self.query, self.examples)

    @property
    def messages(self) -> list[Message]:
        """The prompt as the messages of a chat, `[{"role": …, "content": …}]`.

        The instruction as the system's, a turn of the user and of the assistant for each example,
        and the query.

        Examples that are conversations keep all their turns and tool calls, but not their system
        message. If all have the same one, it takes the place of a missing instruction.
        """
        return list(self.layout.messages(self.query, self.examples))


def shortened(text: str, length: int) -> str:
    """Return a text on one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"
