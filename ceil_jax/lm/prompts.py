"""Examples and a query to one prompt, under a token budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.base import LanguageModel
from ceil_jax.tasks.example import Example, Template

Fit = Literal["greedy", "similarity", "budget"]
Order = Literal["similarity", "greedy"]


@dataclass(frozen=True)
class Prompt:
    """A prompt and which of the chosen examples made it in, in prompt order (indices into the choice)."""

    text: str
    order: tuple[int, ...]


class Room(NamedTuple):
    """What the examples of each query's prompt may take, for methods that choose under it."""

    left: Mapping[str, int]
    """Query id → tokens."""
    costs: Callable[[np.ndarray], np.ndarray]
    """Bank positions of any shape → tokens of each example as it stands in a prompt, separator included."""


class PromptBuilder:
    """Assembles prompts for one LM and one template; counts each example's tokens once.

    Args:
        lm: counts tokens and sets the context length.
        template: how an example stands in a prompt.
        reserve: tokens kept free after the prompt, for the answer.
        few_shot: examples that open every prompt, whatever is retrieved.
        token_budget: a prompt's tokens at most, where that is less than the LM takes.

    Raises:
        UserError: the answer's reserve or `few_shot` alone takes more than there is.
    """

    def __init__(
        self,
        lm: LanguageModel,
        template: Template,
        reserve: int,
        few_shot: Sequence[Example] = (),
        token_budget: int | None = None,
    ) -> None:
        self.lm = lm
        self.template = template
        self.reserve = reserve
        self._opening = "".join(self._piece(example) for example in few_shot)
        self._lengths: dict[str, int] = {}
        # one token for the start-of-text that some tokenisers add
        context = lm.context_length - reserve - 1
        if context < 0:
            raise UserError(
                f"{lm.name} takes {lm.context_length} tokens, and an answer alone may have {reserve}; "
                "choose another LM"
            )
        self._limit, self._remedy = f"{lm.name} takes", "choose another LM"
        if token_budget is not None and token_budget < context:
            context = token_budget
            self._limit, self._remedy = "--token-budget leaves", "raise it"
        opening = self._length(self._opening)
        if opening > context:
            raise UserError(
                f"the {len(few_shot)} examples that open every prompt have {opening} tokens, and {self._limit} "
                f"{context} beside the answer; {self._remedy}"
            )
        self.budget = context - opening

    def left(self, query: Example) -> int:
        """Tokens for examples beside the query.

        Raises:
            UserError: the query alone is longer than the budget.
        """
        length = self._length(self.template.query(query))
        if length > self.budget:
            raise UserError(
                f"example {query.id!r}: its prompt has {length} tokens without any in-context example, and "
                f"{self._limit} {self.budget}; shorten the input or {self._remedy}"
            )
        return self.budget - length

    def room(self, queries: Sequence[Example], bank: Sequence[Example]) -> Room:
        """What the examples of each query's prompt may take.

        Raises:
            UserError: as `left`.
        """
        return Room({query.id: self.left(query) for query in queries}, partial(self._costs, bank))

    def _costs(self, bank: Sequence[Example], positions: np.ndarray) -> np.ndarray:
        asked, place = np.unique(positions, return_inverse=True)
        pieces = [self._piece(bank[i]) for i in asked]
        new = list({piece: None for piece in pieces if piece not in self._lengths})
        if new:
            self._lengths |= zip(new, map(int, self.lm.count_tokens(new)), strict=True)
        return np.array([self._lengths[piece] for piece in pieces])[place].reshape(positions.shape)

    def _piece(self, example: Example) -> str:
        return self.template.example(example) + self.template.separator

    def _length(self, piece: str) -> int:
        if piece not in self._lengths:
            self._lengths[piece] = int(self.lm.count_tokens([piece])[0])
        return self._lengths[piece]

    def build(
        self,
        query: Example,
        chosen: Sequence[Example],
        relevance: Sequence[float],
        fit: Fit = "greedy",
        order: Order = "similarity",
    ) -> Prompt:
        """The prompt of the examples that fit.

        Args:
            query: its output is not shown.
            chosen: in greedy order.
            relevance: similarity to the query of each.
            fit: what to drop when not all fit: see `kept`.
            order: what stands next to the query: "similarity", as in the papers, the most similar, and so on to
                the least similar first; equal ones keep their greedy order, first one nearest. "greedy": the
                first chosen, and so on to the last chosen first.

        Raises:
            UserError: as `left`.
        """
        nearest_first = _by_similarity(relevance) if order == "similarity" else list(range(len(chosen)))
        return self._joined(query, chosen, self.kept(query, chosen, relevance, fit), nearest_first)

    def kept(
        self, query: Example, chosen: Sequence[Example], relevance: Sequence[float], fit: Fit = "greedy"
    ) -> list[int]:
        """Which of the chosen fit, in the order in which they were taken.

        "greedy" keeps the longest prefix of the greedy order, which is the greedy MAP set of that size, and
        so does "budget", whose sets were chosen to fit; "similarity", as the released CEIL code does, the
        most similar ones up to the first that does not fit.

        Raises:
            UserError: as `left`.
        """
        left = self.left(query)
        kept: list[int] = []
        for i in _by_similarity(relevance) if fit == "similarity" else range(len(chosen)):
            left -= self._length(self._piece(chosen[i]))
            if left < 0:
                break
            kept.append(i)
        return kept

    def text(self, query: Example, examples: Sequence[Example]) -> str:
        """The prompt with these examples in this order."""
        return self._opening + "".join(map(self._piece, examples)) + self.template.query(query)

    def _joined(
        self, query: Example, chosen: Sequence[Example], kept: list[int], nearest_first: list[int]
    ) -> Prompt:
        """The kept in prompt order; should the whole be longer than its parts, without the last kept."""
        order = tuple(i for i in reversed(nearest_first) if i in kept)
        text = self.text(query, [chosen[i] for i in order])
        parts = self._length(self.template.query(query))
        parts += sum(self._length(self._piece(chosen[i])) for i in order)
        # a tokeniser may cut differently at a seam; only a whole that nearly fills the budget is counted
        tight = order and parts + len(order) > self.budget
        if tight and self._length(text) > self.budget + self._length(self._opening):
            return self._joined(query, chosen, kept[:-1], nearest_first)
        return Prompt(text, order)


def _by_similarity(relevance: Sequence[float]) -> list[int]:
    return sorted(range(len(relevance)), key=lambda i: (-relevance[i], i))


def answer_reserve(lm: LanguageModel, template: Template, queries: Sequence[Example], longest: int) -> int:
    """Tokens to keep free for the answers of these queries: the longest option, or what may be generated."""
    texts = {template.continuation(query, text) for query in queries for text in query.choices or ()}
    texts |= {template.continuation(query, query.output) for query in queries}
    known = int(np.max(lm.count_tokens(sorted(texts)))) if texts else 0
    return known if all(query.choices for query in queries) else max(known, longest)
