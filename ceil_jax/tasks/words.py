"""BERT's view of a text as words, by which a bank is de-duplicated."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


@functools.cache
def _splitter() -> Callable[[str], list[tuple[str, tuple[int, int]]]]:
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalise, split = BertNormalizer(lowercase=True).normalize_str, BertPreTokenizer().pre_tokenize_str
    return lambda text: split(normalise(text))


def bert_words(text: str) -> str:
    """The text in lower case without accents, punctuation split off, words joined by one space.

    Two questions with equal words are one question in CEIL's Table 1 ("#Train").
    """
    return " ".join(word for word, _ in _splitter()(text))


def first_of_each(items: Iterable[T], text: Callable[[T], str]) -> list[T]:
    """The items whose text has words that no earlier item's has, in order."""
    first: dict[str, T] = {}
    for item in items:
        first.setdefault(bert_words(text(item)), item)
    return list(first.values())


def hash_split(items: Sequence[T], text: Callable[[T], str], tenths: int = 1) -> tuple[list[T], list[T]]:
    """(bank, validation): about `tenths`/10 go to validation, chosen by a hash of the text's words.

    An item's side depends on its own words alone, so it never changes when others come or go, and no text
    is on both sides.
    """
    bank: list[T] = []
    validation: list[T] = []
    for item in items:
        digest = hashlib.sha256(bert_words(text(item)).encode()).digest()
        (validation if int.from_bytes(digest[:8], "big") % 10 < tenths else bank).append(item)
    return bank, validation
