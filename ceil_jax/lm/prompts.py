"""Prompts: an instruction, in-context examples and a query.

A prompt is one text or the messages of a chat. Its examples are ordered and cut to a token budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.messages import Message, Messages, Rendered, text_of
from ceil_jax.lm.token_budget import fitting_prefix, most_that_fit
from ceil_jax.registry import Registry
from ceil_jax.tasks.conversations import turns_of
from ceil_jax.tasks.example import Example, Template, pieces_of

Fit = Literal["greedy", "similarity"]
"""The rule by which `PromptBuilder.build` drops examples."""


def examples_text(template: Template, examples: Sequence[Example]) -> str:
    """Return examples with their answers as one text.

    They are in the given order, each followed by the separator.
    """
    return "".join(template.example(example) + template.separator for example in examples)


def most_relevant_first(relevance: Sequence[float]) -> list[int]:
    """Return positions by descending relevance; equal ones keep their order."""
    return sorted(range(len(relevance)), key=lambda i: (-relevance[i], i))


def prompt_order(relevance: Sequence[float]) -> list[int]:
    """Return the positions of chosen examples by ascending relevance.

    The most relevant one is last, next to the query (CEIL, section 4.3; Skill-KNN, section 3). Of
    equally relevant ones, the one that was chosen first comes later.
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
    """Return the maximum number of tokens of a prompt if `reserve` tokens are kept free for the answer."""
    # one token for the start-of-text that some tokenizers add
    return lm.context_length - reserve - 1


Form = Literal["text", "turns"]
"""The form of a prompt. text: one text; turns: the messages of a chat, with a turn of the user and
one of the assistant for each example."""

SYSTEM_ROLES = ("system", "developer")
"""The roles of an instruction in a conversation."""

LABELS = "labels"
"""The placeholder in an instruction, `{labels}`, for the labels."""

NAMES_LABELS = "Answer with one of these labels, and with nothing else: {labels}."
"""The instruction of a chat LM whose answers are labels, if the user gives none."""


def instruction(pattern: str, labels: Sequence[str]) -> str:
    """Return an instruction with the list of labels filled in.

    `{labels}` is replaced by the labels, and a literal brace is written twice.

    Args:
        pattern: the instruction as the user gives it.
        labels: the labels; empty if outputs are not labels.

    Raises:
        UserError: the pattern names `{labels}` without there being any, or something else in
            braces; or a brace is unpaired.

    >>> instruction("One of {labels}.", ["bad", "good"])
    'One of bad, good.'
    """
    named = {name for _, name in pieces_of(pattern)} - {""}
    if others := sorted(named - {LABELS}):
        raise UserError(
            f"the instruction (system) names {{{others[0]}}}; the only name allowed in braces is {{labels}}, "
            "and a literal brace is written twice: {{ or }}"
        )
    if named and not labels:
        raise UserError(
            "the instruction (system) names {labels}, and the outputs are not labels: describe the "
            "answers in words"
        )
    return "".join(", ".join(labels) if name else text for text, name in pieces_of(pattern))


def names_labels(pattern: str) -> bool:
    """Return whether an instruction contains the placeholder `{labels}`."""
    return any(name == LABELS for _, name in pieces_of(pattern))


@dataclass(frozen=True)
class Prompt:
    """The form of a prompt, the same in a comparison, in a search and in an application's selector.

    >>> prompt = Prompt(Template("{input} It is {output}"), system="Rate the film.", form="turns")
    >>> bank = [Example("a", "A fine film.", "good")]
    >>> [message["content"] for message in prompt.render(Example("q", "A long film.", ""), bank)]
    ['Rate the film.', 'A fine film. It is', 'good', 'A long film. It is']
    """

    template: Template
    """The text of an example and of a query. A user's turn is the part before the answer."""
    system: str = ""
    """The instruction, which comes once, before the examples; see `instruction`."""
    form: Form = "text"
    order: str = "relevance"
    """The order of the examples, a name in ORDERS."""
    few_shot: tuple[Example, ...] = ()
    """Examples with which every prompt begins, before the retrieved ones."""
    token_budget: int | None = None
    """The maximum number of tokens of a prompt, the instruction and the query included; None for
    the LM's context length."""
    system_role: Literal["system", "user"] = "system"
    """The role of the instruction among turns; "user" puts it at the beginning of the first user's
    turn, for models that know no system message."""

    def __post_init__(self) -> None:
        ORDERS.require(self.order)

    def render(self, query: Example, examples: Sequence[Example]) -> Rendered:
        """Return the prompt in its form. The output of the query is not read.

        Args:
            query: the query, which comes last.
            examples: the examples in prompt order.

        Raises:
            UserError: the template names a field that an example or the query lacks.
        """
        if self.form == "text":
            return self.text(query, examples)
        return self.messages(query, examples)

    def text(self, query: Example, examples: Sequence[Example]) -> str:
        """Return the prompt as one text, up to where the answer begins; see `render`."""
        return self.opening + examples_text(self.template, examples) + self.template.query(query)

    def messages(self, query: Example, examples: Sequence[Example]) -> Messages:
        """Return the prompt as the messages of a chat, of which the query's is the last.

        See `render`.

        Examples that are conversations keep all their turns, but not their system message; if all
        have the same one, and the query too where it is one, it takes the place of a missing
        instruction.
        """
        conversation = turns_of(query)
        system: Any = self.system
        if not system:
            others = [turns_of(example) for example in (*self.few_shot, *examples)]
            system = _shared_system([*others, conversation] if conversation else others)
        last = _without_system(conversation) or [self._user_turn(query)]
        return self.messages_to(last, examples, system)

    def messages_to(
        self, last: Sequence[Message], examples: Sequence[Example] = (), system: Any = ""
    ) -> Messages:
        """Return the prompt as the messages of a chat that ends with the given turns.

        Args:
            last: the turns at the end.
            examples: the examples before them, in prompt order.
            system: the instruction, if it is not the prompt's own.
        """
        system = system or self.system
        turns = [turn for example in (*self.few_shot, *examples) for turn in self.turns(example)]
        turns += last
        if system and self.system_role == "system":
            turns.insert(0, {"role": "system", "content": system})
        elif system:
            turns[0] = {**turns[0], "content": f"{system}\n\n{turns[0]['content']}"}
        return Messages(turns)

    def turns(self, example: Example) -> list[Message]:
        """Return an example as a turn of the user and the assistant's answer.

        A conversation as all of its turns.
        """
        answer = {"role": "assistant", "content": example.output}
        return _without_system(turns_of(example)) or [self._user_turn(example), answer]

    def _user_turn(self, example: Example) -> Message:
        return {"role": "user", "content": self.template.query(example).rstrip()}

    @property
    def opening(self) -> str:
        """The text before the retrieved examples: the instruction and the examples `few_shot`."""
        system = self.system + self.template.separator if self.system else ""
        return system + examples_text(self.template, self.few_shot)

    def continuation(self, query: Example, answer: str) -> str:
        """Return an answer as the text that follows a query's prompt."""
        return answer if self.form == "turns" else self.template.continuation(query, answer)


def _shared_system(conversations: Sequence[Sequence[Message]]) -> Any:
    """The content of the system message that all conversations have.

    None if they differ or have none.
    """
    contents = [
        next((turn.get("content") for turn in turns if turn["role"] in SYSTEM_ROLES), None)
        for turns in conversations
    ]
    # a content may be a list of parts, which cannot be in a set
    is_shared = bool(contents) and all(content == contents[0] for content in contents)
    return contents[0] if is_shared else None


def _without_system(turns: Sequence[Message]) -> list[Message]:
    return [turn for turn in turns if turn["role"] not in SYSTEM_ROLES]


def ordered(order: str, relevance: Sequence[float], gains: Sequence[float]) -> list[int]:
    """Return the positions of examples in prompt order.

    Args:
        order: a name in ORDERS.
        relevance: float [k], in order of choice.
        gains: float [k], likewise.

    Raises:
        UserError: the order does not return each position once.
    """
    # an order from outside may return None
    positions = [int(position) for position in ORDERS[order](relevance, gains) or ()]
    if sorted(positions) != list(range(len(relevance))):
        raise UserError(
            f"order {order!r} returned {positions} for {len(relevance)} examples; "
            f"expected each of 0 to {len(relevance) - 1} once"
        )
    return positions


class Built(NamedTuple):
    """A prompt for one query."""

    prompt: Rendered
    order: tuple[int, ...]
    """The positions of the prompt's examples among the chosen ones, in prompt order."""

    @property
    def text(self) -> str:
        """The prompt as one text (`text_of`)."""
        return text_of(self.prompt)


class PromptBuilder:
    """A builder of prompts for one LM.

    The tokens of each example are counted once.

    A prompt keeps its token budget, and leaves `reserve` tokens of the LM's context for the answer.
    Messages are given to the LM as it reads them (`LanguageModel.chat`).

    >>> from ceil_jax.lm.tiny import TinyLM
    >>> builder = PromptBuilder(TinyLM(), Prompt(Template("{input} It is {output}")), reserve=4)
    >>> bank = [Example("a", "A fine film.", "good"), Example("b", "A dull film.", "bad")]
    >>> builder.build(Example("q", "A long film.", ""), bank, relevance=[0.4, 0.9]).order
    (0, 1)

    Raises:
        UserError: the reserve for the answer exceeds what the LM reads, or what opens every prompt
            the token budget; or the LM reads no turns.
    """

    def __init__(self, lm: LanguageModel, prompt: Prompt, reserve: int) -> None:
        self.lm = lm
        self.prompt = prompt
        self._lengths: dict[str, int] = {}
        budget = context_budget(lm, reserve)
        if budget < 0:
            raise UserError(
                f"{lm.name} takes {lm.context_length} tokens, and an answer alone may have "
                f"{reserve}; choose another LM, or a smaller --max-new-tokens"
            )
        self._source = f"{lm.name} takes"
        self._remedy = "choose another LM"
        if prompt.token_budget is not None and prompt.token_budget < budget:
            budget = prompt.token_budget
            self._source = "--token-budget leaves"
            self._remedy = "raise it"
        self._most = budget
        """The maximum number of tokens of a whole prompt."""
        opening = self._length(self._opening())
        if opening > budget:
            what = ["the instruction"] if prompt.system else []
            if prompt.few_shot:
                what.append(f"the {len(prompt.few_shot)} examples that open every prompt")
            raise UserError(
                f"{' and '.join(what) or 'an empty prompt'} {'have' if prompt.few_shot else 'has'} "
                f"{opening} tokens, and {self._source} {budget} besides the answer; {self._remedy}"
            )
        self.budget = budget - opening
        """The maximum number of tokens of the retrieved examples and the query."""

    def _opening(self) -> str:
        """Return the beginning of every prompt; for turns, with the marks of an empty query."""
        if self.prompt.form == "text":
            return self.prompt.opening
        return text_of(self.lm.chat(self.prompt.messages_to([{"role": "user", "content": ""}])))

    def remaining(self, query: Example) -> int:
        """Return the number of tokens left for examples after the query is in the prompt.

        A UserError if the query alone does not fit.
        """
        if self.prompt.form == "text":
            length = self._length(self.prompt.template.query(query))
        else:
            length = self._length(text_of(self._rendered(query, ()))) - (self._most - self.budget)
        if length > self.budget:
            raise UserError(
                f"example {query.id!r}: its prompt has {length} tokens without any in-context "
                f"example, and {self._source} {self.budget}; shorten the input, leave out a file's "
                f"long rows (CEIL_JAX_MAX_CELL=CHARACTERS and --skip-bad-rows), or {self._remedy}"
            )
        return self.budget - length

    def costs(self, bank: Sequence[Example], positions: np.ndarray) -> np.ndarray:
        """Return the number of tokens of each example at some positions, separators included.

        The positions are int, of any shape.
        """
        distinct, numbers = np.unique(positions, return_inverse=True)
        tokens_of_distinct = self._counted([self._piece(bank[i]) for i in distinct])
        return np.array(tokens_of_distinct)[numbers].reshape(positions.shape)

    def _piece(self, example: Example) -> str:
        """The text of one example in a prompt."""
        if self.prompt.form == "text":
            return examples_text(self.prompt.template, [example])
        return Messages(self.prompt.turns(example)).text.removesuffix("assistant:")

    def _rendered(self, query: Example, examples: Sequence[Example]) -> Rendered:
        prompt = self.prompt.render(query, examples)
        return prompt if isinstance(prompt, str) else self.lm.chat(prompt)

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
    ) -> Built:
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
        # a chat template may put any number of tokens around a turn
        is_templated = self.prompt.form == "turns" and not self.lm.reads_messages

        @cache
        def built(count: int) -> Built:
            fitting = sorted(priority[:count])
            positions = ordered(
                self.prompt.order, [relevance[i] for i in fitting], [gains[i] for i in fitting]
            )
            order = tuple(fitting[position] for position in positions)
            return Built(self._rendered(query, [chosen[i] for i in order]), order)

        def fits(count: int) -> bool:
            # the whole text is only counted if it nearly fills the budget; its count is not kept
            if remaining - costs[:count].sum() >= count and not is_templated:
                return True
            return int(self.lm.count_tokens([built(count).text])[0]) <= self._most

        most = int(fitting_prefix(costs, remaining).sum())
        return built(most_that_fit(most, fits))


def answer_reserve(
    lm: LanguageModel, prompt: Prompt, queries: Sequence[Example], longest: int
) -> int:
    """Return the number of tokens to keep free for answers.

    If the LM scores choices, they are those of the longest choice. If it generates, they are at
    least `longest`.

    Args:
        lm: counts tokens.
        prompt: how an answer continues a prompt.
        queries: their choices and gold outputs are counted.
        longest: the most tokens that the LM may generate.
    """
    texts = {prompt.continuation(query, text) for query in queries for text in query.choices}
    texts |= {prompt.continuation(query, query.output) for query in queries}
    longest_answer = int(np.max(lm.count_tokens(sorted(texts)))) if texts else 0
    chooses = lm.can_score and all(query.choices for query in queries)
    return longest_answer if chooses else max(longest_answer, longest)
