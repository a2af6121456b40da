"""Comparison of texts: whether two count as the same question, label or column name.

Unicode can write many texts in more than one way, and has invisible characters. Everything that
compares texts (a query's own answer, copies, labels, column names, BM25's words, filters) uses this
module. Rows keep their exact text: keys are for comparison only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

_DEFAULT_IGNORABLE = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),  # Arabic letter mark
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian variation selectors and vowel separator
    (0x200B, 0x200F),  # zero width space and joiners, left-to-right and right-to-left mark
    (0x202A, 0x202E),  # bidirectional embeddings and overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, isolates, deprecated format characters
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors 1 to 16
    (0xFEFF, 0xFEFF),  # zero width no-break space, the byte order mark
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF0, 0xFFF8),  # unassigned, reserved for format characters
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical symbols' begin and end
    (0xE0000, 0xE0FFF),  # tags and variation selectors 17 to 256
)
"""First and last code points with the property Default_Ignorable_Code_Point, from
DerivedCoreProperties.txt of the Unicode Character Database, version 16.0. Python's `unicodedata`
does not have the property."""

_IGNORED = re.compile(
    "[" + "".join(f"{chr(low)}-{chr(high)}" for low, high in _DEFAULT_IGNORABLE) + "]+"
)


def question_key(text: str) -> str:
    """Return a key that is equal for texts that look the same: Unicode's normal form NFC, without
    invisible characters (`Default_Ignorable_Code_Point`), with each run of white space folded to
    one space and none at the ends.

    Texts with equal keys count as the same: an example with a query's key is never in that query's
    prompt, and two labels with equal keys are one label. Differences that may change the meaning
    (case, accents, width, punctuation) are kept.

    >>> question_key("  tail\\n-f log ") == question_key("tail -f  log"), question_key("A") == question_key("a")
    (True, False)
    >>> question_key("cafe\\u0301\\u200e") == question_key("café")
    True
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", _IGNORED.sub("", text))
    return " ".join(text.split())


def same_text(text: str, others: Collection[str]) -> str | None:
    """Return the member of `others` that is the same text, in its own spelling; None if none is.

    An exact match is preferred; otherwise it is the first one with an equal `question_key`.

    >>> same_text("re\\u0301ponse", ["question", "réponse"])
    'réponse'
    """
    if text in others:
        return text
    key = question_key(text)
    return next((other for other in others if _key_of_any(other) == key), None)


def _key_of_any(name: object) -> str | None:
    """The key of a text; None for anything else, such as a column name that is a number."""
    return question_key(name) if isinstance(name, str) else None


def look_alikes(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return the different spellings of each text that has more than one: key → spellings, in
    order.

    >>> look_alikes(["tea", "tea\\u200b", "milk"])
    {'tea': ['tea', 'tea\\u200b']}
    """
    spellings: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        spellings.setdefault(question_key(text), []).append(text)
    return {key: several for key, several in spellings.items() if len(several) > 1}


def differing_answers(questions: Sequence[str], answers: Sequence[str]) -> list[list[int]]:
    """Return the questions that have several different answers.

    Each is given as the first positions of its answers, in order.

    Args:
        questions: the `question_key` of each row's question.
        answers: the `question_key` of each row's answer.

    >>> differing_answers(["tea?", "milk?", "tea?", "tea?"], ["yes", "no", "no", "yes"])
    [[0, 2]]
    """
    positions: dict[str, dict[str, int]] = {}
    for position, (question, answer) in enumerate(zip(questions, answers, strict=True)):
        positions.setdefault(question, {}).setdefault(answer, position)
    return [[*of_answers.values()] for of_answers in positions.values() if len(of_answers) > 1]
