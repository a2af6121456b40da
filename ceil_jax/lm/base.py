"""What the rest of the package may ask of a language model: numpy and strings only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class LanguageModel(Protocol):
    """A frozen LM. Results depend on each prompt alone, never on what it is batched with."""

    name: str
    """Says which weights and which dtype: results are cached under it."""
    context_length: int
    """Tokens that fit, prompt and continuation together."""

    @property
    def tokens_read(self) -> int:
        """Tokens that went through the model since it was loaded, a prefix that several share once; behind an
        endpoint, those that the server states."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        """int [N]: tokens of each text, special tokens not counted."""
        ...

    def log_likelihood(self, prompts: Sequence[str], continuations: Sequence[str]) -> np.ndarray:
        """float64 [N]: Σ log P of the continuation's tokens, in nats, given the prompt.

        The text prompt + continuation is tokenised whole; the continuation's tokens are those that end after
        the prompt's last character.
        """
        ...

    def choice_log_likelihood(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]]
    ) -> list[np.ndarray]:
        """For each prompt, float64 [C]: `log_likelihood` of each of its choices, the prompt read once."""
        ...

    def choose(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> np.ndarray:
        """int [N]: the most likely choice of each prompt (lowest index wins ties); per_token: by the mean."""
        ...

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[str]:
        """The text after each prompt, cut before the first stop string and otherwise untouched.

        Greedy at temperature 0; otherwise sampled, reproducible from the seed.
        """
        ...


class TokenScores(NamedTuple):
    """A text's tokens, in order; a server may have special ones before them."""

    tokens: list[str]
    """As they stand in the text; "" for all but the last of a character's."""
    log_probs: list[float | None]
    """Of each token given those before it; None where none stands before it."""


@runtime_checkable
class TokenScorer(LanguageModel, Protocol):
    """An LM that can also say what each token of a text costs: what a server needs."""

    def token_log_probs(self, texts: Sequence[str]) -> list[TokenScores]:
        """Each text read whole; the same numbers that `log_likelihood` sums."""
        ...
