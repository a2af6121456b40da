"""The ways in which an LM answers queries, and the kinds of probably wrong answers.

An LM chooses by log-probabilities, generates text, or generates one of the choices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ceil_jax.lm import LanguageModel
from ceil_jax.lm.answers import TROUBLES, trimmed
from ceil_jax.lm.messages import Rendered
from ceil_jax.lm.options import option_in
from ceil_jax.lm.prompts import Prompt
from ceil_jax.lm.request import LMRequest
from ceil_jax.pipeline.prompting import Prompting
from ceil_jax.tasks.example import Example

NO_OPTION = "no option"
"""The kind of trouble of a generated answer that is none of the options."""


_AROUND_LABEL = 8
"""Number of tokens that are planned for what a chat writes around a label: marks, `Label:`, or JSON."""
_SHOWN = 80
"""The maximum number of characters of an answer that a note shows."""

TROUBLE_COLUMNS = {
    NO_OPTION: "unmatched",
    "length": "cut off",
    "refused": "refused",
    "empty": "empty",
}
"""Trouble → the column of tables that counts it."""


class Reply(NamedTuple):
    """An LM's answer to a query."""

    prediction: str
    trouble: str = ""
    """The reason why it is probably wrong: a key of `lm.answers.TROUBLES`, or NO_OPTION; "" if
    there is none."""


class Way(Protocol):
    """A way of answering queries with an LM, without reading their gold outputs."""

    def requests(self, prompts: Sequence[Rendered], queries: Sequence[Example]) -> list[LMRequest]:
        """Return the LM request for each query's prompt."""

    def replies(
        self, lm: LanguageModel, prompts: Sequence[Rendered], queries: Sequence[Example]
    ) -> list[Reply]:
        """Return the LM's answer to each query's prompt."""

    def most_tokens(self, lm: LanguageModel, queries: Sequence[Example]) -> np.ndarray:
        """Return float [N]: an estimate of the maximum number of tokens that each answer takes besides its prompt."""


@dataclass(frozen=True)
class Choosing:
    """The way that takes the choice with the highest log-probability."""

    prompt: Prompt
    per_token: bool

    def requests(self, prompts: Sequence[Rendered], queries: Sequence[Example]) -> list[LMRequest]:
        return [
            LMRequest(prompt, tuple(self._options(query)), self.per_token)
            for prompt, query in zip(prompts, queries, strict=True)
        ]

    def replies(
        self, lm: LanguageModel, prompts: Sequence[Rendered], queries: Sequence[Example]
    ) -> list[Reply]:
        options = [self._options(query) for query in queries]
        best = lm.choose(prompts, options, per_token=self.per_token)
        return [Reply(query.choices[int(i)]) for query, i in zip(queries, best, strict=True)]

    def most_tokens(self, lm: LanguageModel, queries: Sequence[Example]) -> np.ndarray:
        texts = sorted({text for query in queries for text in self._options(query)})
        lengths = dict(zip(texts, lm.count_tokens(texts), strict=True))
        sums = [sum(lengths[text] for text in self._options(query)) for query in queries]
        return np.array(sums, np.float64)

    def _options(self, query: Example) -> list[str]:
        return [self.prompt.continuation(query, choice) for choice in query.choices]


@dataclass(frozen=True)
class Writing:
    """The way that takes the text that the LM generates greedily, up to a stop string."""

    max_new_tokens: int
    stop: tuple[str, ...]

    def requests(self, prompts: Sequence[Rendered], queries: Sequence[Example]) -> list[LMRequest]:
        return [LMRequest(text, (), False, self.max_new_tokens, self.stop) for text in prompts]

    def replies(
        self, lm: LanguageModel, prompts: Sequence[Rendered], queries: Sequence[Example]
    ) -> list[Reply]:
        answers = lm.answers(prompts, self.max_new_tokens, self.stop)
        return [Reply(_without_edges(answer.text), answer.trouble) for answer in answers]

    def most_tokens(self, lm: LanguageModel, queries: Sequence[Example]) -> np.ndarray:
        return np.full(len(queries), float(self.max_new_tokens))


@dataclass(frozen=True)
class WritingAnOption(Writing):
    """Takes the choice that an LM without log-probabilities writes.

    Its answer is constrained to them if the LM supports that (`held`), else its first or last line
    is one (`lm.options.option_in`). If none is, the reply is the text itself.
    """

    held: bool = False

    def most_tokens(self, lm: LanguageModel, queries: Sequence[Example]) -> np.ndarray:
        """Return float [N]: the number of tokens of the longest label, and a few for what surrounds
        it.

        An LM that writes more is charged for what it writes.
        """
        texts = sorted({choice for query in queries for choice in query.choices})
        lengths = dict(zip(texts, lm.count_tokens(texts), strict=True))
        longest = [max(lengths[choice] for choice in query.choices) for query in queries]
        return np.minimum(np.array(longest, np.float64) + _AROUND_LABEL, self.max_new_tokens)

    def requests(self, prompts: Sequence[Rendered], queries: Sequence[Example]) -> list[LMRequest]:
        if not self.held:
            return super().requests(prompts, queries)
        return [
            LMRequest(prompt, limit=self.max_new_tokens, labels=tuple(query.choices))
            for prompt, query in zip(prompts, queries, strict=True)
        ]

    def replies(
        self, lm: LanguageModel, prompts: Sequence[Rendered], queries: Sequence[Example]
    ) -> list[Reply]:
        if self.held:
            choices = [query.choices for query in queries]
            answers = lm.write_labels(prompts, choices, self.max_new_tokens)
        else:
            answers = lm.answers(prompts, self.max_new_tokens, self.stop)
        replies = []
        for answer, query in zip(answers, queries, strict=True):
            held = answer.text in query.choices
            option = answer.text if held else option_in(answer.text, query.choices)
            if option is None:
                replies.append(Reply(answer.text.strip(), answer.trouble or NO_OPTION))
            else:
                replies.append(Reply(option))
        return replies


def way_of_answering(
    lm: LanguageModel, prompting: Prompting, stop: Sequence[str], queries: Sequence[Example]
) -> Way:
    """Return the way in which an LM answers queries.

    If they have choices, by log-probabilities, or by generating a choice if the LM gives none; else
    by generating text.

    A chat that generates a choice is not cut at `stop`, because the choice may stand in a later
    line.

    Args:
        lm: answers.
        prompting: how prompts are written, and the most new tokens of an answer.
        stop: strings at which a generated answer ends.
        queries: the queries, all with choices or all without.
    """
    limit = prompting.max_new_tokens
    if not (queries and queries[0].choices):
        return Writing(limit, tuple(stop))
    if lm.can_score:
        return Choosing(prompting.prompt, prompting.per_token)
    return WritingAnOption(limit, () if lm.ends_itself else tuple(stop), lm.can_label)


def ask(
    lm: LanguageModel,
    prompting: Prompting,
    stop: Sequence[str],
    prompts: Sequence[Rendered],
    queries: Sequence[Example],
) -> list[Reply]:
    """Return the LM's answer to the prompt of each query (`way_of_answering`).

    Args:
        lm: answers.
        prompting: how prompts are written, and the most new tokens of an answer.
        stop: strings at which a generated answer ends.
        prompts: a prompt for each query.
        queries: the queries; gold outputs are not read.
    """
    return way_of_answering(lm, prompting, stop, queries).replies(lm, prompts, queries)


def _without_edges(text: str) -> str:
    """Return a generated answer without empty lines and spaces around it.

    The single leading space that a tokenizer adds is removed; indentation is kept.
    """
    return re.sub(r"\A (?! )", "", trimmed(text))


def trouble_in_words(trouble: str, limit: int | None = None) -> str:
    """Return words for a kind of trouble that complete "answers that are …".

    Args:
        trouble: a key of `lm.answers.TROUBLES`, or NO_OPTION.
        limit: the most tokens that an answer could have; None if unknown.
    """
    if trouble == "length":
        tokens = "tokens" if limit is None else f"{limit} tokens"
        return f"cut by the limit of {tokens} (--max-new-tokens)"
    if trouble == NO_OPTION:
        return "none of the labels in their first or last line, and so counted as wrong"
    return TROUBLES[trouble]


def without_label(answers: Iterable[tuple[str, str]]) -> str:
    """Return a sentence that shows three answers that are no labels; "" if there are none.

    A user sees by it what to change in the instruction.

    Args:
        answers: the text and the trouble of each answer.

    >>> without_label([("good", ""), ("Hard to say.\\nGood?", "no option")])
    ' Such as: “Hard to say. Good?”.'
    """
    texts = (" ".join(text.split()) for text, trouble in answers if trouble == NO_OPTION)
    shown = [f"“{text[:_SHOWN]}{'…' * (len(text) > _SHOWN)}”" for text in dict.fromkeys(texts)]
    return f" Such as: {', '.join(shown[:3])}." if shown else ""
