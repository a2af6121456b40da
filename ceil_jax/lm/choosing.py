"""Choosing the most likely of given answers: the part that all language models share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from ceil_jax.errors import UserError

T = TypeVar("T")


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


def by_prompt(values: Iterable[T], choices: Sequence[Sequence[str]]) -> list[list[T]]:
    """Return one value for each choice, in `flat_choices`' order, as one list for each prompt."""
    rest = iter(values)
    return [[next(rest) for _ in options] for options in choices]


def best_choices(scores: Sequence[np.ndarray], lengths: Sequence[Sequence[int]] | None = None) -> np.ndarray:
    """Return int [N], the index of each prompt's most likely choice; the lowest index wins a tie.

    Args:
        scores: for each of N prompts, float64 [C]: the log-likelihood of each choice, in nats.
        lengths: the number of tokens of each choice, to compare log-likelihoods per token; an empty choice
            counts as one token.
    """
    if lengths is not None:
        scores = [score / np.maximum(n, 1) for score, n in zip(scores, lengths, strict=True)]
    return np.array([np.argmax(score) for score in scores], dtype=np.int64)
