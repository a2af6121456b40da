"""One cell of a table: as a text, and whether it says the value of a filter.

A cell may be anything that Python, numpy, pandas, polars, Arrow or `datasets` put there. `plain`
brings it down to a value of Python's own; `as_text` writes that, as an input, an output or a piece of
metadata; `says` compares such a text with a value that a user gives, by the same rules.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np

from ceil_jax.tasks.identity import question_key

EXACT = 2**53
"""The number from which on a float does not tell two whole numbers apart."""

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
"""Values that have one text, which Python's `str` writes; a datetime is a date."""

_NOTHING = ("NAType", "NaTType")
"""The types of pandas' NA and NaT."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)


def plain(value: Any) -> Any:
    """Return a cell as a value of Python's own; an object that has none comes back as it is.

    Scalars of numpy, Arrow, JAX and torch become Python's, arrays and series lists. A member of an
    Enum is its value where that is a text, and else its name.
    """
    if isinstance(value, Enum):
        return str.__str__(value.value) if isinstance(value.value, str) else value.name
    if value is None or type(value) in (str, int, float, bool, list, dict):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if hasattr(value, "as_py"):  # Arrow's scalars
        return plain(value.as_py())
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _moment(value)
    if isinstance(value, np.floating):
        return float(str(value))  # the shortest text that means this number, as `str` has it
    for listed in ("tolist", "to_list", "to_pylist"):
        if _shape(value) != () and hasattr(value, listed):
            return getattr(value, listed)()
    if hasattr(value, "item") and hasattr(value, "dtype"):
        return plain(value.item())
    return value


def _shape(value: Any) -> Any:
    """The shape of an array; () of a number and of what has none, unless it is one of Arrow's."""
    return getattr(value, "shape", None if hasattr(value, "to_pylist") else ())


def _moment(value: np.datetime64 | np.timedelta64) -> Any:
    """A date, time or span of numpy as one of Python's; None for NaT."""
    if np.isnat(value):
        return None
    kind = "datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]"
    whole_days = np.datetime_data(value.dtype)[0] in "YMWD"
    return value.astype("datetime64[D]" if whole_days and kind[0] == "d" else kind).item()


def missing(value: Any) -> bool:
    """Return whether a cell holds nothing: None, NaN, or pandas' NaT and NA."""
    value = plain(value)
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, Decimal):
        return value.is_nan()
    return value is None or (_of_pandas(value) and type(value).__name__ in _NOTHING)


def as_text(value: Any) -> str | None:
    """Return a cell as text; None where it is missing, or no text, number, date, span of time, UUID
    or path.

    Numbers and dates are written as Python writes them: `True`, `2.5`, `2026-01-02 00:00:00`.
    Containers, bytes, pictures and other objects have no text, and neither has an infinite number.
    """
    value = plain(value)
    if isinstance(value, str):
        return value
    if missing(value):
        return None
    if isinstance(value, float):
        return str(value) if math.isfinite(value) else None
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    if isinstance(value, _WRITTEN) or (_of_pandas(value) and not hasattr(value, "__len__")):
        try:
            return str(value)
        except ValueError:  # a whole number of more digits than Python writes
            return None
    return None


def _of_pandas(value: Any) -> bool:
    """Whether a value is one of pandas' own, such as a Period."""
    return type(value).__module__.split(".")[0] == "pandas"


def only_item(value: Any) -> Any:
    """Return the only item of a list, tuple, set, array or series of one, as annotation tools write
    the label of a text; any other value as it is."""
    value = plain(value)
    if isinstance(value, list | tuple | set | frozenset) and len(value) == 1:
        return next(iter(value))
    return value


def nests(value: Any) -> bool:
    """Return whether a cell holds an object, or a list that is more than one text or number."""
    value = plain(value)
    if isinstance(value, list | tuple):
        return any(isinstance(item, Mapping | list) for item in value) or len(value) > 1
    return isinstance(value, Mapping)


def texts_of(value: Any) -> tuple[str, ...] | None:
    """Return the texts of a list, tuple or array of texts, numbers or dates; None for any other
    cell."""
    value = plain(value)
    if not isinstance(value, list | tuple):
        return None
    texts = tuple(as_text(item) for item in value)
    return None if None in texts else tuple(text for text in texts if text is not None)


def whole_numbers(rows: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Return rows in which columns of whole numbers are whole again, and the columns whose numbers
    lost digits.

    A table that cannot hold whole numbers and missing cells in one column, as pandas' cannot,
    writes 1 as 1.0. A column that is all floats without a fraction, with a cell missing, was whole.
    From 2⁵³ on a float is not the number that stood there: such columns stay, and are named. What
    is no mapping of columns among the rows comes back as it is.
    """
    largest: dict[str, float] = {}
    present: Counter[str] = Counter()
    others: set[str] = set()
    for row in rows:
        for name, value in row.items() if isinstance(row, Mapping) else ():
            if name in others or missing(value):
                continue
            number = plain(value)
            if isinstance(number, float) and number.is_integer():
                largest[name] = max(abs(number), largest.get(name, 0.0))
                present[name] += 1
            else:
                others.add(name)
    count = sum(isinstance(row, Mapping) for row in rows)
    upcast = [name for name in largest if name not in others and present[name] < count]
    whole = {name for name in upcast if largest[name] < EXACT}
    lost = [name for name in upcast if name not in whole]
    return [_whole(row, whole) if isinstance(row, Mapping) else row for row in rows], lost


def _whole(row: Mapping[str, Any], columns: set[str]) -> Mapping[str, Any]:
    """A row with the numbers of some columns as whole ones."""
    numbers = {
        name: int(plain(row[name])) for name in columns & row.keys() if not missing(row[name])
    }
    return {**row, **numbers} if numbers else row


def says(text: str | None, wanted: Any) -> bool:
    """Return whether the text of a cell says a value that a filter wants.

    The value becomes a text as a cell does, and texts are compared by `question_key`. Beyond that, a
    number is equal to the texts that write it, where both are exact: whole numbers of any length,
    and floats below 2⁵³. A truth value is equal to "true" or "false" in any case, a date to the
    texts that write it, and None, NaN and NaT to a missing cell.

    >>> says("2020.0", 2020), says("true", True), says("2020.0", "2020"), says(None, None)
    (True, True, False, True)
    >>> says("1546130668394913822", 1546130668394913792)
    False
    """
    wanted = plain(only_item(wanted))
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
    """The moment that a text writes in ISO's form, at midnight if it is a day; else the text."""
    try:
        return datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return text
