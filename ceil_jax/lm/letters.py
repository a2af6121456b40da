"""Letters in place of labels, for a chat LM that scores first tokens.

They are used if labels cannot be told apart by their first tokens.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace

from ceil_jax.errors import UserError
from ceil_jax.lm.prompts import Prompt
from ceil_jax.tasks.conversations import turns_of
from ceil_jax.tasks.example import Example

LETTERS = string.ascii_uppercase
"""The letters that stand for labels, which limit the number of labels."""

INSTRUCTION = "Answer with the letter of the label alone: {letters}."
"""The sentence that is appended to the instruction of a prompt."""


def with_letters(prompt: Prompt, labels: Sequence[str]) -> Prompt:
    """Return a prompt whose instruction says which letter stands for which label.

    >>> from ceil_jax.tasks.example import Template
    >>> with_letters(Prompt(Template("{input} {output}")), ["bad", "good"]).system
    'Answer with the letter of the label alone: A: bad, B: good.'
    """
    letters = ", ".join(
        f"{letter}: {label}" for letter, label in zip(LETTERS, labels, strict=False)
    )
    told = INSTRUCTION.format(letters=letters)
    return replace(
        prompt,
        system=f"{prompt.system}\n{told}" if prompt.system else told,
        few_shot=tuple(lettered(prompt.few_shot, labels)),
    )


def lettered(examples: Sequence[Example], labels: Sequence[str]) -> list[Example]:
    """Return examples whose outputs and choices are the letters of their labels.

    Raises:
        UserError: there are more labels than letters, or an example is a conversation, whose turns
            have its label.
    """
    if len(labels) > len(LETTERS):
        raise UserError(f"{len(labels)} labels; there are letters for {len(LETTERS)}")
    letters = dict(zip(labels, LETTERS, strict=False))
    choices = tuple(letters.values())
    for example in examples:
        if turns_of(example):
            raise UserError(
                f"example {example.id!r} is a conversation, whose answer cannot be replaced by a "
                "letter; give the columns of its text and its label"
            )
    return [replace(row, output=letters[row.output], choices=choices) for row in examples]
