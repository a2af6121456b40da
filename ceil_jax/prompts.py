"""Examples and a query to one prompt, under a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.base import LanguageModel
from ceil_jax.tasks.base import Example, Template

Fit = Literal["greedy", "similarity"]


@dataclass(frozen=True)
class Prompt:
    """A prompt and which of the chosen examples made it in, in prompt order (indices into the choice)."""

    text: str
    order: tuple[int, ...]


class PromptBuilder:
    """Assembles prompts for one LM and one template; counts each example's tokens once.

    Args:
        lm: counts tokens and sets the context length.
        template: how an example stands in a prompt.
        reserve: tokens kept free after the prompt, for the answer.
        few_shot: examples that open every prompt, whatever is retrieved.
    """

    def __init__(
        self, lm: LanguageModel, template: Template, reserve: int, few_shot: Sequence[Example] = ()
    ) -> None:
        self.lm = lm
        self.template = template
        self.reserve = reserve
        self._opening = "".join(self._piece(example) for example in few_shot)
        self._lengths: dict[str, int] = {}
        # one token for the start-of-text that some tokenisers add
        self.budget = lm.context_length - reserve - 1 - self._length(self._opening)

    def _piece(self, example: Example) -> str:
        return self.template.example(example) + self.template.separator

    def _length(self, piece: str) -> int:
        if piece not in self._lengths:
            self._lengths[piece] = int(self.lm.count_tokens([piece])[0])
        return self._lengths[piece]

    def build(
        self, query: Example, chosen: Sequence[Example], relevance: Sequence[float], fit: Fit = "greedy"
    ) -> Prompt:
        """The prompt: least similar example first, the most similar next to the query.

        Args:
            query: its output is not shown.
            chosen: in greedy order.
            relevance: similarity to the query of each; equal ones keep their greedy order, first one nearest.
            fit: what to drop when not all fit. "greedy" keeps the longest prefix of the greedy order, which
                is the greedy MAP set of that size; "similarity", as the released CEIL code does, the most
                similar ones up to the first that does not fit.

        Raises:
            UserError: the query alone is longer than the budget.
        """
        stem = self.template.query(query)
        left = self.budget - self._length(stem)
        if left < 0:
            raise UserError(
                f"example {query.id!r}: its prompt has {self.budget - left} tokens without any in-context "
                f"example, and {self.lm.name} takes {self.budget}; shorten the input or choose another LM"
            )
        pieces = [self._piece(example) for example in chosen]
        by_similarity = sorted(range(len(chosen)), key=lambda i: (-relevance[i], i))
        kept: list[int] = []
        for i in range(len(chosen)) if fit == "greedy" else by_similarity:
            left -= self._length(pieces[i])
            if left < 0:
                break
            kept.append(i)
        return self._joined(stem, pieces, kept, by_similarity)

    def _joined(self, stem: str, pieces: list[str], kept: list[int], by_similarity: list[int]) -> Prompt:
        """The kept pieces in prompt order; should the whole be longer than its parts, without the last kept."""
        order = tuple(i for i in reversed(by_similarity) if i in kept)
        text = self._opening + "".join(pieces[i] for i in order) + stem
        parts = sum(self._length(piece) for piece in (*(pieces[i] for i in order), stem))
        # a tokeniser may cut differently at a seam; only a whole that nearly fills the budget is counted
        tight = order and parts + len(order) > self.budget
        if tight and self._length(text) > self.budget + self._length(self._opening):
            return self._joined(stem, pieces, kept[:-1], by_similarity)
        return Prompt(text, order)


def answer_reserve(lm: LanguageModel, template: Template, queries: Sequence[Example], longest: int) -> int:
    """Tokens to keep free for the answers of these queries: the longest option, or what may be generated."""
    texts = {template.continuation(query, text) for query in queries for text in query.choices or ()}
    texts |= {template.continuation(query, query.output) for query in queries}
    known = int(np.max(lm.count_tokens(sorted(texts)))) if texts else 0
    return known if all(query.choices for query in queries) else max(known, longest)
