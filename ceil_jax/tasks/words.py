"""The words of a text as BERT splits it, by which a bank is de-duplicated and queries are found in it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from ceil_jax.tasks.example import Example

T = TypeVar("T")


@functools.cache
def _splitter() -> Callable[[str], list[tuple[str, tuple[int, int]]]]:
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalise, split = BertNormalizer(lowercase=True).normalize_str, BertPreTokenizer().pre_tokenize_str
    return lambda text: split(normalise(text))


def bert_words(text: str) -> str:
    """Return a text in lower case without accents, with punctuation split off and words joined by one space.

    Two questions with equal words are one question in CEIL's Table 1 ("#Train").
    """
    return " ".join(word for word, _ in _splitter()(text))


def first_of_each(items: Iterable[T], text: Callable[[T], str]) -> list[T]:
    """Return the items whose text has other words than the texts of all earlier items, in order.

    Args:
        items: in the order that decides which of equals is kept.
        text: the text of an item.
    """
    first: dict[str, T] = {}
    for item in items:
        first.setdefault(bert_words(text(item)), item)
    return list(first.values())


def hash_split(items: Sequence[T], text: Callable[[T], str]) -> tuple[list[T], list[T]]:
    """Return (bank, validation), about nine to one, split by a hash of each text's words.

    The side of an item depends on its own words alone: it does not change when others come or go, and no text is on
    both sides.

    Args:
        items: what to split.
        text: the text of an item.
    """
    bank: list[T] = []
    validation: list[T] = []
    for item in items:
        digest = hashlib.sha256(bert_words(text(item)).encode()).digest()
        (validation if int.from_bytes(digest[:8], "big") % 10 == 0 else bank).append(item)
    return bank, validation


class Overlap(NamedTuple):
    """The overlap of N queries with each other and with a bank."""

    question: np.ndarray
    """int [N]: the number of each query's question; questions of equal words have equal numbers."""
    question_in_bank: np.ndarray
    """bool [N]: whether the bank has an input of the same words."""
    output_in_bank: np.ndarray
    """bool [N]: whether the bank has the very output."""

    def only(self, where: np.ndarray) -> Overlap:
        """Return the overlap of some of the queries; bool [N] says of which."""
        return Overlap(*(column[where] for column in self))

    def parts(self) -> dict[str, np.ndarray]:
        """Return the parts of the queries that are worth a number of their own: name → bool [N].

        There are none where fewer than a twentieth of the queries would be on one side.
        """
        found = {}
        for what, inside in (("question", self.question_in_bank), ("output", self.output_in_bank)):
            if min(inside.sum(), (~inside).sum()) >= max(1, len(inside) / 20):
                found[f"{what} in the bank ({inside.sum():,})"] = inside
                found[f"{what} not in the bank ({(~inside).sum():,})"] = ~inside
        return found


def overlap(queries: Sequence[Example], bank: Sequence[Example]) -> Overlap:
    """Return which queries share a question, and whose question or output stands in the bank.

    Questions are equal where their words are (`bert_words`), as when a bank is de-duplicated; outputs where they are
    equal to the letter.

    Args:
        queries: N queries.
        bank: the examples that are retrieved from.
    """
    asked = [bert_words(query.input) for query in queries]
    number = {words: place for place, words in enumerate(dict.fromkeys(asked))}
    inputs, outputs = {bert_words(example.input) for example in bank}, {example.output for example in bank}
    return Overlap(
        np.array([number[words] for words in asked], np.int64),
        np.array([words in inputs for words in asked], bool),
        np.array([query.output in outputs for query in queries], bool),
    )
