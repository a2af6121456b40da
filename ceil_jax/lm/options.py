"""The label in a generated answer, for LMs that can only generate text.

Such an LM can neither score options nor be constrained to them.
"""

from __future__ import annotations

from collections.abc import Sequence

_MARKS = " \t\"'`´‘’“”„«»*_.,:;!()[]{}"
"""Characters that may surround a label: quotes, asterisks, full stops, brackets. Not +, -, # and <,
which may be part of one (C++, -1, C#, <5)."""


def option_in(text: str, options: Sequence[str]) -> str | None:
    """Return the option in the first or the last line of an answer: the whole line, or the text
    after its last colon. None if neither line is an option, or if they are two different ones. Case
    and surrounding marks are ignored, unless two options differ only by them.

    >>> teams = ["billing", "mobile app", "hr"]
    >>> option_in("**Billing.**", teams), option_in("An invoice.\\n\\nLabel: Mobile app", teams)
    ('billing', 'mobile app')
    >>> print(option_in("This belongs to billing.", teams))
    None
    """
    lines = text.strip().splitlines()
    found = {_option(line, options) for line in (*lines[:1], *lines[-1:])} - {None}
    return found.pop() if len(found) == 1 else None


def _option(line: str, options: Sequence[str]) -> str | None:
    for piece in (line, line.rpartition(":")[2]):
        plain = _plain(piece)
        same = [option for option in options if option.strip() == piece.strip()]
        alike = [option for option in options if plain and _plain(option) == plain]
        for named in (same, alike):
            if len(named) == 1:
                return named[0]
    return None


def _plain(text: str) -> str:
    return text.strip(_MARKS).casefold()
