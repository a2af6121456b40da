"""A language model that only counts the tokens that a run would read and generate, for dry runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

import numpy as np

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.messages import Messages, Rendered, text_of
from ceil_jax.lm.registry import source_of
from ceil_jax.lm.request import LMRequest
from ceil_jax.lm.tiny import TinyLM


@dataclass(eq=False)
class CountingLM(LanguageModel):
    """An LM with a real tokenizer and no weights, which counts tokens.

    It neither scores nor generates. It has the real LM's name, so that cached results of that LM
    are found.
    """

    name: str
    context_length: int
    parameters: int
    """The number of parameters; 1 if unknown."""
    counter: Callable[[Sequence[str]], np.ndarray]
    exact: bool = True
    """Whether `counter` is the real LM's tokenizer, and not an estimate."""
    reads_rows: bool = False
    """Whether the real LM reads a prompt again for each choice of several tokens, as on a GPU
    (`lm.torch.padded`), and not once for all choices."""
    reads_trees: bool = False
    """Whether the real LM reads the common beginning of prompts in a group once, as on a CPU
    (`lm.torch.scoring`)."""
    weighs: bool = False
    """Whether the real LM reads a prompt once for all labels, and generates a token
    (`LanguageModel.can_weigh`)."""
    template: Callable[[Messages], str] | None = None
    """The real LM's chat template; None if it has none."""
    takes_system: bool = True
    tokens_read = 0

    def chat(self, messages: Messages) -> Rendered:
        return super().chat(messages) if self.template is None else self.template(messages)

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.asarray(self.counter(texts))

    def count(
        self, requests: Iterable[LMRequest], answers: Sequence[str], *, together: bool = False
    ) -> tuple[float, float]:
        """Return how many tokens the LM reads and how many it generates to answer some requests.

        Args:
            requests: the requests to the LM.
            answers: texts of the same length as typical answers.
            together: whether requests whose prompts have the same beginning follow one another.
        """
        distinct = list(dict.fromkeys(requests))
        read = self._read_in_rows(distinct) if self.reads_rows else self._read_once(distinct)
        if self.weighs:
            read = int(self.count_tokens([text_of(request.prompt) for request in distinct]).sum())
        if together and self.reads_trees:
            read -= self._shared(distinct)
        length = self.count_tokens(answers).mean() + 1 if answers else 0
        written = sum(
            float(self.weighs) if request.choices else min(length, request.limit)
            for request in distinct
        )
        return float(read), float(written)

    def _read_once(self, requests: Sequence[LMRequest]) -> int:
        """Return the number of tokens read if each prompt is read once for all of its choices.

        The last token of a choice is not read.
        """
        choices = self.count_tokens([text for request in requests for text in request.choices])
        prompts = self.count_tokens(list({text_of(request.prompt): 0 for request in requests}))
        return int(prompts.sum() + (choices - 1).clip(0).sum())

    def _shared(self, requests: Sequence[LMRequest]) -> int:
        """Return the number of tokens that prompts share with the beginning of the prompt before.

        They are shared within a group that is scored together. Prompts for generation are read
        separately.
        """
        prompts = [text_of(request.prompt) for request in requests if request.choices]
        # the first prompt of a group shares nothing with the one before
        beginnings = [
            common_beginning(before, prompt)
            for number, (before, prompt) in enumerate(pairwise(prompts), 1)
            if number % self.at_once["score"] != 0
        ]
        return int(self.count_tokens(beginnings).sum()) if beginnings else 0

    def _read_in_rows(self, requests: Sequence[LMRequest]) -> int:
        """Return the number of tokens read if each choice has a row of its own.

        Choices of one token share the prompt's row.
        """
        prompts = self.count_tokens([text_of(request.prompt) for request in requests])
        read = 0
        for request, length in zip(requests, prompts, strict=True):
            # the tokens behind the prompt, without the last one of a choice, which is not read
            behind = np.zeros(1)
            if request.choices:
                behind = (self.count_tokens(request.choices) - 1).clip(0)
            in_own_row = behind > 0
            rows = int(in_own_row.sum())
            if not in_own_row.all():
                rows += 1
            read += int(length * rows + behind.sum())
        return read


def common_beginning(first: str, second: str) -> str:
    """Return the common prefix of two texts.

    >>> common_beginning("a fine film", "a fine play")
    'a fine '
    """
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return first[: sum(1 for _ in alike)]


def by_characters(texts: Sequence[str]) -> np.ndarray:
    """Return an estimate of the number of tokens of each text, int [N].

    One for every four characters.
    """
    return np.array([math.ceil(len(text) / 4) for text in texts], np.int64)


def counting_lm(spec: str, dtype: str) -> CountingLM:
    """Return an LM that only counts tokens, in place of a local LM."""
    if spec == "tiny":
        lm = TinyLM()
        return CountingLM(lm.name, lm.context_length, 1, lm.count_tokens)
    source, name = source_of(spec)
    from ceil_jax.lm.torch.loading import outline

    known = outline(source, name, dtype)
    return CountingLM(
        known.name,
        known.context_length,
        known.parameters,
        known.count_tokens,
        reads_rows=known.reads_rows,
        reads_trees=not known.reads_rows,
        template=known.template,
        takes_system=known.takes_system,
    )
