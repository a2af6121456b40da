"""A language model that only counts the tokens that a run would read and write, for dry runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

import numpy as np

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.readings import LMRequest
from ceil_jax.lm.registry import source_of
from ceil_jax.lm.tiny import TinyLM


@dataclass(eq=False)
class CountingLM(LanguageModel):
    """An LM with a real tokenizer and no weights: it counts tokens, and neither scores nor writes.

    Results of the real LM are found under the same name.
    """

    name: str
    context_length: int
    parameters: int
    """1 if unknown."""
    counter: Callable[[Sequence[str]], np.ndarray]
    exact: bool = True
    """Whether `counter` counts the real LM's tokens."""
    reads_rows: bool = False
    """Whether the real LM reads a prompt again for each choice of several tokens, as on a GPU, and
    not once for all of them (`lm.torch.padded`)."""
    reads_trees: bool = False
    """Whether the real LM reads once what prompts that it is given together have in common at their
    beginning, as on a CPU (`lm.torch.scoring`)."""
    tokens_read = 0

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.asarray(self.counter(texts))

    def count(
        self, requests: Iterable[LMRequest], answers: Sequence[str], *, together: bool = False
    ) -> tuple[float, float]:
        """Return the tokens that answering some requests reads and writes.

        Args:
            requests: what the LM is asked.
            answers: texts of the usual length of an answer.
            together: whether requests whose prompts begin alike stand one after another.
        """
        distinct = list(dict.fromkeys(requests))
        read = self._read_in_rows(distinct) if self.reads_rows else self._read_once(distinct)
        if together and self.reads_trees:
            read -= self._shared(distinct)
        length = self.count_tokens(answers).mean() + 1 if answers else 0
        return float(read), float(sum(min(length, request.limit) for request in distinct))

    def _read_once(self, requests: Sequence[LMRequest]) -> int:
        """The tokens read where a prompt is read once, and behind it all but the last token of each
        choice."""
        choices = self.count_tokens([text for request in requests for text in request.choices])
        prompts = self.count_tokens(list({request.prompt: 0 for request in requests}))
        return int(prompts.sum() + (choices - 1).clip(0).sum())

    def _shared(self, requests: Sequence[LMRequest]) -> int:
        """The tokens that prompts have in common with the one before them, among those that are
        scored together; prompts that are continued are read each by itself."""
        prompts = [one.prompt for one in requests if one.choices]
        beginnings = [
            common_beginning(before, prompt)
            for number, (before, prompt) in enumerate(pairwise(prompts), 1)
            if number % self.at_once["score"]
        ]
        return int(self.count_tokens(beginnings).sum()) if beginnings else 0

    def _read_in_rows(self, requests: Sequence[LMRequest]) -> int:
        """The tokens read where each choice of several tokens has a row of its own, and those of
        one token share that of the prompt."""
        prompts = self.count_tokens([request.prompt for request in requests])
        read = 0
        for request, length in zip(requests, prompts, strict=True):
            behind = (
                (self.count_tokens(request.choices) - 1).clip(0) if request.choices else np.zeros(1)
            )
            own_rows = behind[behind > 0]
            shares_row = len(own_rows) < len(behind)
            read += int(length * (len(own_rows) + shares_row) + own_rows.sum())
        return read


def common_beginning(first: str, second: str) -> str:
    """Return what two texts have in common at their beginning.

    >>> common_beginning("a fine film", "a fine play")
    'a fine '
    """
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return first[: sum(1 for _ in alike)]


def by_characters(texts: Sequence[str]) -> np.ndarray:
    """Return about how many tokens each text has, int [N]: one for four characters."""
    return np.array([-(-len(text) // 4) for text in texts], np.int64)


def counting_lm(spec: str, dtype: str) -> CountingLM:
    """Return an LM that only counts tokens, in place of a local one that `load_lm` would load."""
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
    )
