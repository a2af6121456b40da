"""A language model that only counts: what a run would read and write, without the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ceil_jax.lm import LanguageModel, TinyLM, source_of


class CountingLM:
    """The `LanguageModel` protocol over a real tokenizer: answers are empty, scores 0, and all is counted.

    Args:
        name: the real LM's, so that its results are found under the same keys.
        parameters: the real LM's, 0 where there are none.
        count: tokens of each text.
    """

    def __init__(
        self,
        name: str,
        context_length: int,
        parameters: int,
        count: Callable[[Sequence[str]], np.ndarray],
    ) -> None:
        self.name, self.context_length, self.parameters = name, context_length, parameters
        self._count = count
        self.tokens_read = 0
        self.tokens_written = 0
        self.answer_tokens = 32.0
        """How many tokens a generated answer is taken to have."""

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return self._count(texts)

    def log_likelihood(self, prompts: Sequence[str], continuations: Sequence[str]) -> np.ndarray:
        self.choice_log_likelihood(prompts, [[text] for text in continuations])
        return np.zeros(len(prompts))

    def choice_log_likelihood(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]]
    ) -> list[np.ndarray]:
        options = [option for some in choices for option in some]
        self.tokens_read += int(self._count(prompts).sum() + (self._count(options) - 1).clip(0).sum())
        return [np.zeros(len(some)) for some in choices]

    def choose(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> np.ndarray:
        self.choice_log_likelihood(prompts, choices)
        return np.zeros(len(prompts), np.int64)

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[str]:
        self.tokens_read += int(self._count(prompts).sum())
        self.tokens_written += math.ceil(min(self.answer_tokens, max_new_tokens) * len(prompts))
        return [""] * len(prompts)


def counting_lm(spec: str, dtype: str) -> CountingLM:
    """The LM called `spec` with its tokenizer and configuration alone.

    Raises:
        UserError: as `load_lm`.
    """
    if spec == "tiny":
        lm: LanguageModel = TinyLM()
        return CountingLM(lm.name, lm.context_length, 0, lm.count_tokens)
    source, name = source_of(spec)
    from ceil_jax.lm.torch import model as torch_lm

    return CountingLM(*torch_lm.outline(source, name, dtype))
