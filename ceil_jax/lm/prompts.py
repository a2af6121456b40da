"""Prompts: in-context examples and a query as one text, ordered and cut to a token budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.token_budget import fitting_prefix, most_that_fit
from ceil_jax.registry import Registry
from ceil_jax.tasks.example import Example, Template

Fit = Literal["greedy", "similarity"]
"""The rule by which `PromptBuilder.build` drops examples."""


def examples_text(template: Template, examples: Sequence[Example]) -> str:
    """Return examples with their answers as text, in the given order, each followed by the
    separator."""
    return "".join(template.example(example) + template.separator for example in examples)


def prompt_text(
    template: Template, examples: Sequence[Example], query: Example, opening: str = ""
) -> str:
    """Return a prompt up to where the answer begins.

    Args:
        template: how an example and a query are written.
        examples: the examples in prompt order.
        query: the query, which stands last.
        opening: text before the examples; none by default.
    """
    return opening + examples_text(template, examples) + template.query(query)


def most_relevant_first(relevance: Sequence[float]) -> list[int]:
    """Return positions by descending relevance; equal ones keep their order."""
    return sorted(range(len(relevance)), key=lambda i: (-relevance[i], i))


def prompt_order(relevance: Sequence[float]) -> list[int]:
    """Return the positions of chosen examples by ascending relevance, so that the most relevant one
    stands last, next to the query (CEIL, section 4.3; Skill-KNN, section 3). Of equally relevant
    ones, the one that was chosen first stands later.
    """
    return most_relevant_first(relevance)[::-1]


Order = Callable[[Sequence[float], Sequence[float]], Sequence[int]]
"""A function (relevance, gains) → positions, for the k examples of a prompt in order of choice.
Both arguments are float [k]; the result is a permutation of 0 … k − 1 in prompt order, with the
example next to the query last."""

ORDERS: Registry[Order] = Registry("order of examples", "register_order adds one.")


def register_order(name: str, order: Order, *, replace: bool = False) -> None:
    """Add an order of examples, for `--order NAME`; see `Order`.

    It is called with the examples that fit into the prompt. Gains are those of the retriever, such
    as DPP-MAP's; for candidate sets in training, which have no gains, they are the relevance.

    Raises:
        UserError: the name is taken, and `replace` is not set.

    >>> register_order("most_relevant_first", lambda relevance, gains: prompt_order(relevance)[::-1])
    """
    ORDERS.register(name, order, replace=replace)


register_order("relevance", lambda relevance, gains: prompt_order(relevance))


def context_budget(lm: LanguageModel, reserve: int) -> int:
    """Return the most tokens of a prompt if `reserve` tokens are kept free for the answer."""
    # one token for the start-of-text that some tokenizers add
    return lm.context_length - reserve - 1


class Prompt(NamedTuple):
    """A prompt, and the positions in the choice of the examples in it, in prompt order."""

    text: str
    order: tuple[int, ...]


class PromptBuilder:
    """Builds prompts for one LM and one template. The tokens of each example are counted once.

    A prompt has at most `token_budget` tokens, and leaves `reserve` tokens of the LM's context for
    the answer. Every prompt begins with the examples `few_shot`. `order` is a name in ORDERS.

    >>> from ceil_jax.lm.tiny import TinyLM
    >>> builder = PromptBuilder(TinyLM(), Template("{input} It is {output}"), reserve=4)
    >>> bank = [Example("a", "A fine film.", "good"), Example("b", "A dull film.", "bad")]
    >>> builder.build(Example("q", "A long film.", ""), bank, relevance=[0.4, 0.9]).order
    (0, 1)

    Raises:
        UserError: the order is unknown; or the reserve for the answer, or `few_shot`, exceeds the
            budget.
    """

    def __init__(
        self,
        lm: LanguageModel,
        template: Template,
        reserve: int,
        few_shot: Sequence[Example] = (),
        token_budget: int | None = None,
        order: str = "relevance",
    ) -> None:
        self._order_name = order
        self._order = ORDERS[order]
        self.lm = lm
        self.template = template
        self._opening = examples_text(template, few_shot)
        self._lengths: dict[str, int] = {}
        budget = context_budget(lm, reserve)
        if budget < 0:
            raise UserError(
                f"{lm.name} takes {lm.context_length} tokens, and an answer alone may have "
                f"{reserve}; choose another LM, or a smaller --max-new-tokens"
            )
        self._source = f"{lm.name} takes"
        self._remedy = "choose another LM"
        if token_budget is not None and token_budget < budget:
            budget = token_budget
            self._source = "--token-budget leaves"
            self._remedy = "raise it"
        opening = self._length(self._opening)
        if opening > budget:
            raise UserError(
                f"the {len(few_shot)} examples that open every prompt have {opening} tokens, and "
                f"{self._source} {budget} beside the answer; {self._remedy}"
            )
        self.budget = budget - opening
        """The tokens for the retrieved examples and the query."""

    def remaining(self, query: Example) -> int:
        """Return the tokens left for examples when the query is in the prompt. A UserError if the
        query alone does not fit."""
        length = self._length(self.template.query(query))
        if length > self.budget:
            raise UserError(
                f"example {query.id!r}: its prompt has {length} tokens without any in-context "
                f"example, and {self._source} {self.budget}; shorten the input, leave out a file's "
                f"long rows (CEIL_JAX_MAX_CELL=CHARACTERS and --skip-bad-rows), or {self._remedy}"
            )
        return self.budget - length

    def costs(self, bank: Sequence[Example], positions: np.ndarray) -> np.ndarray:
        """Return the tokens of the examples at some positions (int, of any shape), separators
        included."""
        distinct, numbers = np.unique(positions, return_inverse=True)
        tokens_of_distinct = self._counted([self._piece(bank[i]) for i in distinct])
        return np.array(tokens_of_distinct)[numbers].reshape(positions.shape)

    def _piece(self, example: Example) -> str:
        return examples_text(self.template, [example])

    def _counted(self, pieces: Sequence[str]) -> list[int]:
        new = [piece for piece in dict.fromkeys(pieces) if piece not in self._lengths]
        if new:
            self._lengths |= zip(new, map(int, self.lm.count_tokens(new)), strict=True)
        return [self._lengths[piece] for piece in pieces]

    def _length(self, piece: str) -> int:
        return self._counted([piece])[0]

    def build(
        self,
        query: Example,
        chosen: Sequence[Example],
        relevance: Sequence[float],
        fit: Fit = "greedy",
        gains: Sequence[float] | None = None,
    ) -> Prompt:
        """Return the prompt with as many of the chosen examples as fit, without the query's output.

        Args:
            query: the query to be answered.
            chosen: k examples, in greedy order.
            relevance: float [k], the relevance of each to the query.
            fit: "greedy" keeps the longest prefix of the greedy order, which is the greedy MAP set
                of that size; "similarity" keeps the most similar examples up to the first that does
                not fit, as in CEIL's released code.
            gains: float [k], the gain of each example when it was chosen; by default its relevance.

        Raises:
            UserError: the query alone does not fit, or the order does not return a permutation.
        """
        gains = relevance if gains is None else gains
        priority = list(range(len(chosen)))
        if fit == "similarity":
            priority = most_relevant_first(relevance)
        costs = np.array(self._counted([self._piece(chosen[i]) for i in priority]), int)
        remaining = self.remaining(query)
        budget = self.budget + self._length(self._opening)

        @cache
        def prompt(count: int) -> Prompt:
            order = self._ordered(sorted(priority[:count]), relevance, gains)
            examples = [chosen[i] for i in order]
            return Prompt(prompt_text(self.template, examples, query, self._opening), order)

        def fits(count: int) -> bool:
            # the whole text is only counted if it nearly fills the budget; its count is not kept
            if remaining - costs[:count].sum() >= count:
                return True
            return int(self.lm.count_tokens([prompt(count).text])[0]) <= budget

        most = int(fitting_prefix(costs, remaining).sum())
        return prompt(most_that_fit(most, fits))

    def _ordered(
        self, fitting: list[int], relevance: Sequence[float], gains: Sequence[float]
    ) -> tuple[int, ...]:
        """The positions `fitting` in prompt order."""
        ordered = self._order([relevance[i] for i in fitting], [gains[i] for i in fitting])
        # an order from outside may return None
        positions = [int(position) for position in ordered or ()]
        if sorted(positions) != list(range(len(fitting))):
            raise UserError(
                f"order {self._order_name!r} returned {positions} for {len(fitting)} examples; "
                f"expected each of 0 to {len(fitting) - 1} once"
            )
        return tuple(fitting[position] for position in positions)


def answer_reserve(
    lm: LanguageModel, template: Template, queries: Sequence[Example], longest: int
) -> int:
    """Return the tokens to keep free for answers: those of the longest choice if the LM scores
    choices; at least `longest` if it generates.

    Args:
        lm: counts tokens.
        template: how an answer continues a prompt.
        queries: their choices and gold outputs are counted.
        longest: the most tokens that the LM may generate.
    """
    texts = {template.continuation(query, text) for query in queries for text in query.choices}
    texts |= {template.continuation(query, query.output) for query in queries}
    longest_answer = int(np.max(lm.count_tokens(sorted(texts)))) if texts else 0
    chooses = lm.can_score and all(query.choices for query in queries)
    return longest_answer if chooses else max(longest_answer, longest)
