"""Word splitting in any script, for BM25.

In scripts with spaces between words, a word is a run of letters, digits and the marks on them. In
scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Myanmar), or with endings attached to
words (Korean), each pair of neighbouring characters is a word, as in Lucene's CJK analyser.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from ceil_jax.tasks.identity import question_key

_HAN = r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HANGUL = r"\uac00-\ud7a3"
_UNSPACED = (
    _HAN
    + _HANGUL
    + r"\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Japanese
    r"\u0e01-\u0eff\u1000-\u109f\u1780-\u17dd\ua9e0-\ua9ff\uaa60-\uaa7f"  # Thai, Lao, Myanmar, Khmer
)
"""Letters of the scripts whose words are pairs of characters, without the digits and punctuation of
their blocks."""

_EMOJI = r"[\U0001f1e6-\U0001f1ff]{2}|[\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
"""Pattern of one emoji: the two letters of a flag, or a picture."""

_DRAWN_ONLY = re.compile("[\u0640\u20e3\U0001f3fb-\U0001f3ff]")
"""Characters that only change how a text is drawn: the Arabic lengthening stroke, the frame of a
key, and skin tones of emoji."""

_OTHER_FORMS = re.compile("[\u2e80-\u2fdf\ufb1d-\ufdff\ufe70-\ufefc\uff01-\uffef]+")
"""Presentation forms: wide and narrow letters, radicals, and shaped Arabic and Hebrew letters."""

_SAME_LETTER = str.maketrans("أإآٱىیکة", "ااااييكه")
"""Arabic letters that are used interchangeably."""

_POINTS = re.compile(
    "[\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed]"
)
"""Vowel signs of Hebrew and Arabic, which are usually left out in writing."""

_PREFIX = re.compile("(?:[وفبك]?ال|لل|و)(?=..)|[והבכלמש](?=...)")
"""Articles, "and" and prepositions that are joined to the next word in Arabic and Hebrew."""


def words(text: str) -> list[str]:
    """Return the words of a text for BM25, in lower case and in order.

    >>> words("The film's 2nd part"), words("重置密码"), words("हिन्दी 👍🏽")
    (['the', 'film', 's', '2nd', 'part'], ['重', '置', '密', '码', '重置', '置密', '密码'], ['हिन्दी', '👍'])
    """
    text = text.lower()
    return re.findall(r"\w+", text) if text.isascii() else list(_words(text))


def _words(text: str) -> Iterator[str]:
    # the joiner between Persian words and their endings counts as a space; other joiners are
    # ignored
    text = re.sub(r"(?<=[\u0600-\u06ff])\u200c", " ", text)
    text = question_key(text.replace("i\u0307", "i"))  # İ in lower case
    text = _OTHER_FORMS.sub(lambda match: unicodedata.normalize("NFKC", match[0]).lower(), text)
    text = _POINTS.sub("", _DRAWN_ONLY.sub("", text)).translate(_SAME_LETTER)
    text = re.sub(r"[^\W0-9_]", _digit, text)
    for unspaced, word in _pattern().findall(text):
        if unspaced:
            yield from _pairs(unspaced)
        else:
            yield word
            if prefix := _PREFIX.match(word):
                yield word[prefix.end() :]


def _digit(match: re.Match[str]) -> str:
    """A digit of any script as an ASCII digit; any other character unchanged."""
    value = unicodedata.decimal(match[0], None)
    return match[0] if value is None else str(value)


def _pairs(run: str) -> Iterator[str]:
    """Pairs of neighbouring characters with their marks.

    Chinese and Korean characters, and a character without neighbours, are also yielded singly.
    """
    characters = _characters().findall(run)
    for character in characters:
        if len(characters) == 1 or re.match(f"[{_HAN}{_HANGUL}]", character):
            yield character
    yield from map("".join, pairwise(characters))


@cache
def _marks() -> str:
    """All marks that combine with letters, for a character class."""
    marks = [code for code in range(0x300, 0x1F000) if unicodedata.category(chr(code))[0] == "M"]
    return "".join(map(re.escape, map(chr, marks)))


@cache
def _pattern() -> re.Pattern[str]:
    """A regular expression for a word.

    A run of characters of a script without spaces, or any other word.
    """
    letter = rf"(?![{_UNSPACED}])\w"
    word = rf"(?:{letter})(?:{letter}|[{_marks()}])*"
    return re.compile(rf"([{_UNSPACED}](?:[{_UNSPACED}{_marks()}])*)|({_EMOJI}|{word})")


@cache
def _characters() -> re.Pattern[str]:
    return re.compile(rf"[^{_marks()}][{_marks()}]*|[{_marks()}]+")
