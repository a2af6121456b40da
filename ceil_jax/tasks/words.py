"""The overlap of queries with the bank and with one another, by the papers' comparison of
questions.

The papers remove duplicates from their banks by this looser comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from ceil_jax.tasks.example import Example
from ceil_jax.tasks.identity import question_key

T = TypeVar("T")


def bert_words(text: str) -> str:
    """Return the words of a text as BERT's tokenizer splits them, joined by one space.

    They are in lower case without accents, with punctuation split off.

    CEIL's Table 1 ("#Train") counts questions that are equal in this form once. Only the banks of
    the papers' tasks are de-duplicated by it; everywhere else `question_key` decides.
    """
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalised = BertNormalizer(lowercase=True).normalize_str(text)
    return " ".join(word for word, _ in BertPreTokenizer().pre_tokenize_str(normalised))


def first_of_each(items: Iterable[T], key: Callable[[T], str]) -> list[T]:
    """Return the first item with each key, in order."""
    item_of_key: dict[str, T] = {}
    for item in items:
        item_of_key.setdefault(key(item), item)
    return list(item_of_key.values())


class Overlap(NamedTuple):
    """The overlap of N queries with each other and with a bank."""

    question: np.ndarray
    """int [N]: a number for each query's question or program, equal for equal ones; such queries
    are resampled together."""
    question_in_bank: np.ndarray
    """bool [N]: whether the bank has the question."""
    output_in_bank: np.ndarray
    """bool [N]: whether the bank has exactly this output."""

    def parts(self) -> dict[str, np.ndarray]:
        """Return the subsets of queries for which tables print separate values: name → bool [N].

        A pair of subsets is left out if one has fewer than a twentieth of the queries.
        """
        parts = {}
        for what, inside in (("question", self.question_in_bank), ("output", self.output_in_bank)):
            if min(inside.sum(), (~inside).sum()) >= max(1, len(inside) / 20):
                parts[f"{what} in the bank ({inside.sum():,})"] = inside
                parts[f"{what} not in the bank ({(~inside).sum():,})"] = ~inside
        return parts


def overlap(queries: Sequence[Example], bank: Sequence[Example]) -> Overlap:
    """Return which queries share a question with each other or with the bank.

    Questions are compared by `question_key`. Shared outputs are returned too.
    """
    questions = [question_key(query.input) for query in queries]
    number = {key: position for position, key in enumerate(dict.fromkeys(questions))}
    inputs = {question_key(example.input) for example in bank}
    outputs = {example.output for example in bank}
    return Overlap(
        np.array([number[key] for key in questions], np.int64),
        np.array([key in inputs for key in questions], bool),
        np.array([query.output in outputs for query in queries], bool),
    )
