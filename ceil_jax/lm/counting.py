"""A language model that only counts the tokens that a run would read and write, for dry runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.readings import LMRequest
from ceil_jax.lm.registry import source_of
from ceil_jax.lm.tiny import TinyLM


class CountingLM(LanguageModel):
    """An LM with a real tokenizer and no weights: it counts tokens, and neither scores nor writes.

    It has the name of the real LM, whose results are found under the same keys, its context length in tokens and
    its number of parameters (1 if unknown). `exact` says whether `count` counts the real LM's tokens.
    """

    tokens_read = 0

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

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return self._count(texts)

    def count(self, requests: Iterable[LMRequest], answers: Sequence[str]) -> tuple[float, float]:
        """Return the tokens that answering some requests reads and writes, by answers of the usual length."""
        distinct = list(dict.fromkeys(requests))
        choices = self._count([text for one in distinct for text in one.choices])
        read = self._count(list({one.prompt: 0 for one in distinct})).sum() + (choices - 1).clip(0).sum()
        length = self._count(answers).mean() + 1 if answers else 0
        return float(read), float(sum(min(length, one.limit) for one in distinct))


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
