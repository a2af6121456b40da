"""What one query gets: the chosen examples, and the prompt made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ceil_jax.lm.prompts import examples_text, prompt_text
from ceil_jax.tasks.example import Example, Template

Stopped = Literal["k", "token_budget", "exhausted"]
"""Why a selection has no more examples: k were asked for; the rest does not fit the token budget; or every other
example fails the filter or repeats a chosen one."""


class Selected(NamedTuple):
    """One chosen example."""

    example: Example
    relevance: float
    """(1 + cos) / 2 with the query."""
    gain: float
    """The increase of log det L'_S when the example was chosen."""


@dataclass(frozen=True)
class Selection:
    """The examples chosen for one query."""

    query: Example
    picks: tuple[Selected, ...]
    """In prompt order: the most relevant last, next to the query; ties in reverse order of choice."""
    stopped: Stopped
    """Why there are no more."""
    tokens: int | None
    """The number of tokens of `text`; None where no token budget was given."""
    template: Template

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
