"""A language model that only counts the tokens that a run would read and write, for dry runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ceil_jax.lm.base import Continuations, LanguageModel
from ceil_jax.lm.readings import LMRequest, ask_lm
from ceil_jax.lm.registry import source_of
from ceil_jax.lm.tiny import TinyLM


class CountingLM(LanguageModel):
    """An LM with a real tokenizer and no weights: answers are empty, scores 0.

    It has the name of the real LM, whose results are found under the same keys, its context length in tokens and
    its number of parameters (1 if unknown). `exact` says whether `count` counts the real LM's tokens.
    """

    tokens_read = tokens_written = 0
    answer_tokens = 32.0
    """The assumed length of a generated answer, in tokens."""

    def __init__(
        self,
        name: str,
        context_length: int,
        parameters: int,
        count: Callable[[Sequence[str]], np.ndarray],
        exact: bool = True,
    ) -> None:
        self.name, self.context_length, self.parameters = name, context_length, parameters
        self._count, self.exact = count, exact

    def count(self, requests: Sequence[LMRequest], answers: Sequence[str]) -> tuple[float, float]:
        """Return the tokens that answering requests of one kind reads and writes, by answers of the usual length."""
        if answers:
            self.answer_tokens = float(self._count(answers).mean()) + 1
        before = self.tokens_read, self.tokens_written
        ask_lm(self, requests)
        return self.tokens_read - before[0], self.tokens_written - before[1]

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return self._count(texts)

    def scores(self, asked: Continuations) -> tuple[np.ndarray, Sequence[int]]:
        lengths = self._count(asked.texts)
        self.tokens_read += int(self._count(asked.distinct_prompts()).sum() + (lengths - 1).clip(0).sum())
        return np.zeros(len(lengths)), lengths.tolist()

    def write(
        self, prompts: Sequence[str], limit: int, stop: Sequence[str], temperature: float, seeds: list[int]
    ) -> list[str]:
        self.tokens_read += int(self._count(list(dict.fromkeys(prompts))).sum())
        self.tokens_written += math.ceil(min(self.answer_tokens, limit) * len(prompts))
        return [""] * len(prompts)


def by_characters(texts: Sequence[str]) -> np.ndarray:
    """Return about how many tokens each text has, int [N]: one for four characters."""
    return np.array([-(-len(text) // 4) for text in texts], np.int64)


def counting_lm(spec: str, dtype: str) -> CountingLM:
    """Return a counting LM for one that `load_lm` would load and that is no server."""
    if spec == "tiny":
        lm = TinyLM()
        return CountingLM(lm.name, lm.context_length, 1, lm.count_tokens)
    source, name = source_of(spec)
    from ceil_jax.lm.torch.loading import outline

    return CountingLM(*outline(source, name, dtype))
