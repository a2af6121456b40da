"""Defaults for generated answers, derived from the bank's outputs.

The default stop string and length limit, and whether they are numbers.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

LEAST_TOKENS = 128
MOST_TOKENS = 2048
"""The smallest and the largest value of `default_limit`."""

_BYTES_A_TOKEN = 2
"""The assumed number of bytes of a token, which is fewer than is usual in text (4), code (3) or SQL
(3), so that the limit does not cut an answer of ordinary length."""

_NUMBER = re.compile(
    r"(?<![\w.,])[+\-−]?(?:[1-9]\d{0,2}(?:,\d{3})+|0|[1-9]\d*)(?:\.\d+)?(?![\w,.]*\d)", re.ASCII
)
"""Pattern of a number: digits that are no part of a word, a list or a code such as 007; with a
sign, thousands separated by commas, and decimals after a point."""

_ENDS = ("\n\n", "---", "###", "====")


def default_stop(outputs: Sequence[str]) -> str:
    """Return the string that ends a generated answer: a newline if all outputs are single lines; an
    empty line if some have several lines, or if most are JSON, which LMs often spread over lines; a
    mark that no output contains if some outputs contain empty lines.

    >>> default_stop(["good", "bad"]), default_stop(["def f():\\n    pass"]), default_stop(["a\\n\\nb"])
    ('\\n', '\\n\\n', '---')
    """
    texts = [output.strip() for output in outputs]
    several_lines = any("\n" in text for text in texts)
    if not several_lines and 2 * sum(map(_is_json, texts)) <= len(texts):
        return "\n"
    marks = itertools.chain(_ENDS, (f"<end {number}>" for number in itertools.count(1)))
    return next(mark for mark in marks if not any(mark in text for text in texts))


def default_limit(outputs: Iterable[str]) -> int:
    """Return the most tokens of a generated answer.

    One for every two bytes of the longest output, rounded up to a multiple of 32, and between 128
    and 2,048.

    >>> default_limit(["good"]), default_limit(["x" * 1000]), default_limit(["x" * 10**6])
    (128, 512, 2048)
    """
    longest = max((len(output.encode("utf-8", "replace")) for output in outputs), default=0)
    tokens = 32 * math.ceil(longest / (32 * _BYTES_A_TOKEN))
    return min(max(tokens, LEAST_TOKENS), MOST_TOKENS)


def only_number(text: str) -> Decimal | None:
    """Return the number in a text; None if there is none, or more than one.

    >>> only_number("It costs $1,250.50."), only_number("-3 °C"), only_number("from 3 to 4")
    (Decimal('1250.50'), Decimal('-3'), None)
    """
    found = _NUMBER.findall(text)
    if len(found) != 1:
        return None
    return Decimal(found[0].replace(",", "").replace("−", "-"))


def _is_json(text: str) -> bool:
    if text[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
