"""A language model that only counts the tokens that a run would read and write, for dry runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

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
    tokens_read = 0

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.asarray(self.counter(texts))

    def count(self, requests: Iterable[LMRequest], answers: Sequence[str]) -> tuple[float, float]:
        """Return the tokens that answering some requests reads and writes, by answers of the usual
        length."""
        distinct = list(dict.fromkeys(requests))
        choices = self.count_tokens([text for one in distinct for text in one.choices])
        read = (
            self.count_tokens(list({one.prompt: 0 for one in distinct})).sum()
            + (choices - 1).clip(0).sum()
        )
        length = self.count_tokens(answers).mean() + 1 if answers else 0
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
