"""The words of a text, for BM25: runs of letters, digits and the marks on them.

Where a script puts no blanks between words (Chinese, Japanese, Thai, Lao, Khmer, Myanmar), or where endings hang on
the words (Korean), words are taken two characters at a time, as Lucene's CJK analyser does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

_SINGLY = r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\uac00-\ud7a3"
"""Chinese characters and Korean syllables, which are words by themselves too."""

_UNSPACED = (
    _SINGLY + r"\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Japanese
    r"\u0e01-\u0eff\u1000-\u109f\u1780-\u17dd\ua9e0-\ua9ff\uaa60-\uaa7f"  # Thai, Lao, Myanmar, Khmer
)
"""Scripts whose words are taken by pairs of characters."""

_RUN = re.compile(rf"([{_UNSPACED}]+)|[^{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """Return the words of a text, lower-cased, in order; what BM25 counts.

    >>> words("The film's 2nd part"), words("重置密码"), words("हिन्दी")
    (['the', 'film', 's', '2nd', 'part'], ['重', '置', '密', '码', '重置', '置密', '密码'], ['हिन्दी'])
    """
    text = text.lower()
    return re.findall(r"\w+", text) if text.isascii() else list(_words(unicodedata.normalize("NFC", text)))


def _words(text: str) -> Iterator[str]:
    for run in "".join(c if _in_word(c) else " " for c in text).split():
        for found in _RUN.finditer(run):
            part = found[0]
            if found[1] is None:
                yield part
            else:
                yield from (c for c in part if len(part) == 1 or re.match(f"[{_SINGLY}]", c))
                yield from map("".join, pairwise(part))


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"
