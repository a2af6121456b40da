"""The text of a table's cell, and its comparison with the value of a filter.

A cell may be what Python, numpy, pandas or Arrow put there. `plain` turns it into a plain Python
value; `as_text` writes that value as text, for an input, an output or metadata; `says` compares
such a text with a value that a user gives.
"""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np

from ceil_jax.tasks.identity import question_key

EXACT = 2**53
"""The limit from which two different integers may be equal as floats."""

_WRITTEN = (
    bool,
    int,
    Decimal,
    Fraction,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    UUID,
    PurePath,
)
"""Types whose text is their `str`. A datetime is also a date."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)


def plain(value: Any) -> Any:
    """Return a cell as a plain Python value.

    Scalars of numpy, Arrow and others become Python's, and arrays and series become lists. Other
    values are unchanged.
    """
    if isinstance(value, str):
        return str.__str__(value)  # the text of an instance of a subclass, whatever that prints
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value.astype(f"{value.dtype.kind}8[us]")  # nanoseconds would become a number
    for convert in ("tolist", "to_pylist", "as_py"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    return value


def missing(value: Any) -> bool:
    """Return whether a cell holds nothing: None, NaN, or pandas' NaT and NA."""
    value = plain(value)
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def as_text(value: Any) -> str | None:
    """Return a cell as text.

    None if it is missing, or is not a text, number, date, time span, UUID or path.

    They are written as Python writes them, but whole floats as whole numbers, because a column of
    whole numbers becomes floats where a cell is missing: `True`, `2.5`, `2` for 2.0, `2026-01-02`.
    Containers, bytes, other objects and infinite numbers have no text.
    """
    value = plain(value)
    if isinstance(value, str):
        return value
    if missing(value) or (isinstance(value, float | Decimal) and not math.isfinite(value)):
        return None
    if isinstance(value, float):
        return str(int(value) if value.is_integer() and abs(value) < EXACT else value)
    try:
        return str(value) if isinstance(value, _WRITTEN) else None
    except ValueError:  # a whole number of more digits than Python writes
        return None


def says(text: str | None, wanted: Any) -> bool:
    """Return whether the text of a cell equals the value of a filter.

    The value is turned into text by `as_text`, and texts are compared by `question_key`. Beyond
    that, a number equals every text that writes it exactly, such as "2020.0": whole numbers of any
    length, and floats below 2⁵³. A truth value equals "true" or "false" in any case, a date equals
    the same date in ISO form, and None, NaN and NaT equal a missing cell.

    >>> says("2020.0", 2020), says("true", True), says("2020.0", "2020"), says(None, None)
    (True, True, False, True)
    >>> says("1546130668394913822", 1546130668394913792)
    False
    """
    wanted = plain(wanted)
    if text is None or missing(wanted):
        return text is None and missing(wanted)
    written = as_text(wanted)
    if written is None:
        return False
    if question_key(text) == question_key(written):
        return True
    if isinstance(wanted, bool):
        return text.strip().lower() == written.lower()
    if isinstance(wanted, int | float | Decimal):
        if isinstance(wanted, float) and abs(wanted) >= EXACT:
            return False
        number = _NUMBER.fullmatch(text.strip())
        return number is not None and Decimal(number[0]) == Decimal(written)
    if isinstance(wanted, datetime.date):
        return _day_and_time(text) == _day_and_time(written)
    return False


def _day_and_time(text: str) -> datetime.datetime | str:
    """The date and time that a text states in ISO form, midnight for a date alone.

    The text itself if it is neither.
    """
    try:
        return datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return text
