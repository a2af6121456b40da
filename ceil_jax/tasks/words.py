"""The words of a text as BERT splits it, by which a bank is de-duplicated."""

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


def hash_split(items: Sequence[T], text: Callable[[T], str], tenths: int = 1) -> tuple[list[T], list[T]]:
    """Return (bank, validation), split by a hash of each text's words.

    The side of an item depends on its own words alone: it does not change when others come or go, and no text is on
    both sides.

    Args:
        items: what to split.
        text: the text of an item.
        tenths: about `tenths`/10 of the items go to validation; 1 by default.
    """
    bank: list[T] = []
    validation: list[T] = []
    for item in items:
        digest = hashlib.sha256(bert_words(text(item)).encode()).digest()
        (validation if int.from_bytes(digest[:8], "big") % 10 < tenths else bank).append(item)
    return bank, validation
