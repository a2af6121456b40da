"""Choosing the most likely of given answers: the part that all language models share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ceil_jax.errors import UserError


class FlatChoices(NamedTuple):
    """The choices of several prompts in one list."""

    rows: list[int]
    """For each choice, the number of its prompt."""
    prompts: list[str]
    """For each choice, its prompt."""
    texts: list[str]
    """The choices."""


def flat_choices(prompts: Sequence[str], choices: Sequence[Sequence[str]]) -> FlatChoices:
    """Return each prompt's choices in one list.

    Raises:
        UserError: a prompt has no choices, or one string in place of a list of them.
    """
    flat = FlatChoices([], [], [])
    for row, (prompt, options) in enumerate(zip(prompts, choices, strict=True)):
        if isinstance(options, str) or not options:
            raise UserError(f"prompt {row} has choices {options!r}; give a list of at least one string")
        for option in options:
            flat.rows.append(row)
            flat.prompts.append(prompt)
            flat.texts.append(option)
    return flat


def likelihoods(
    scores: Sequence[float] | np.ndarray,
    lengths: Sequence[int],
    choices: Sequence[Sequence[str]],
    per_token: bool,
) -> list[np.ndarray]:
    """Return, for each prompt, float64 [C]: the log-likelihoods of its choices, in nats.

    Args:
        scores: the log-likelihood of every choice, in `flat_choices`' order.
        lengths: the number of its tokens.
        choices: the choices of each prompt.
        per_token: divide each by its number of tokens; an empty choice counts as one token.
    """
    flat = np.asarray(scores, np.float64)
    if per_token:
        flat = flat / np.maximum(lengths, 1)
    return np.split(flat, np.cumsum([len(options) for options in choices])[:-1]) if choices else []


class ByChoices(ABC):
    """The methods of `LanguageModel` that follow from `choice_log_likelihood`."""

    @abstractmethod
    def choice_log_likelihood(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> list[np.ndarray]:
        """Return the log-likelihood of each prompt's choices, as the protocol says."""

    def log_likelihood(self, prompts: Sequence[str], continuations: Sequence[str]) -> np.ndarray:
        scores = self.choice_log_likelihood(prompts, [[text] for text in continuations])
        return np.array([score[0] for score in scores], dtype=np.float64)

    def choose(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> np.ndarray:
        scores = self.choice_log_likelihood(prompts, choices, per_token=per_token)
        return np.array([np.argmax(score) for score in scores], dtype=np.int64)
