"""One cell of a table: its text, and whether it equals the value of a filter.

A cell may be anything that Python, numpy, pandas, polars, Arrow or `datasets` put there. `plain`
turns it into a plain Python value; `as_text` writes that value as text, for an input, an output or
metadata; `says` compares such a text with a value that a user gives.
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
"""From this number on, two different whole numbers may be the same float."""

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
"""Types whose text is what `str` writes. A datetime is also a date."""

_NOTHING = ("NAType", "NaTType")
"""The types of pandas' NA and NaT."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)


def plain(value: Any) -> Any:
    """Return a cell as a plain Python value; an object that has none is returned unchanged.

    Scalars of numpy, Arrow, JAX and torch become Python's, arrays and series lists. A member of an
    Enum becomes its value if that is text, else its name.
    """
    # `str.__str__` makes a text of an instance of a subclass, whatever that class prints
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
    """The shape of an array; () for a number and other values without a shape; None for a list of
    Arrow's."""
    return getattr(value, "shape", None if hasattr(value, "to_pylist") else ())


def _moment(value: np.datetime64 | np.timedelta64) -> Any:
    """A date, time or time span of numpy as Python's own; None for NaT."""
    if np.isnat(value):
        return None
    if isinstance(value, np.timedelta64):
        return value.astype("timedelta64[us]").item()
    unit, _ = np.datetime_data(value.dtype)
    # years, months, weeks or days: a date without a time
    return value.astype("datetime64[D]" if unit in "YMWD" else "datetime64[us]").item()


def missing(value: Any) -> bool:
    """Return whether a cell holds nothing: None, NaN, or pandas' NaT and NA."""
    value = plain(value)
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, Decimal):
        return value.is_nan()
    return value is None or (_of_pandas(value) and type(value).__name__ in _NOTHING)


def as_text(value: Any) -> str | None:
    """Return a cell as text; None if it is missing, or is not a text, number, date, time span, UUID
    or path.

    Numbers and dates are written as Python writes them: `True`, `2.5`, `2026-01-02 00:00:00`.
    Containers, bytes, pictures, other objects and infinite numbers have no text.
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
    """Return the item of a list, tuple, set, array or series that has exactly one; any other value
    unchanged. Annotation tools write a text's label as such a list."""
    value = plain(value)
    if isinstance(value, list | tuple | set | frozenset) and len(value) == 1:
        return next(iter(value))
    return value


def nests(value: Any) -> bool:
    """Return whether a cell holds a mapping, or a list of several items or of mappings or lists."""
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
    """Turn columns of whole numbers that were stored as floats back into integers. Return the rows,
    and the names of the columns whose numbers have lost digits.

    A table that cannot hold whole numbers and missing cells in one column, as pandas' cannot,
    writes 1 as 1.0. A column that has missing cells, and whose other cells are all floats without a
    fraction, is taken to have been whole. From 2⁵³ on a float may differ from the original number:
    such columns stay floats, and their names are returned. Rows that are not mappings are returned
    unchanged.
    """
    largest: dict[str, float] = {}
    present: Counter[str] = Counter()
    others: set[str] = set()
    mappings = [row for row in rows if isinstance(row, Mapping)]
    for row in mappings:
        for name, value in row.items():
            if name in others or missing(value):
                continue
            number = plain(value)
            if isinstance(number, float) and number.is_integer():
                largest[name] = max(abs(number), largest.get(name, 0.0))
                present[name] += 1
            else:
                others.add(name)
    upcast = [name for name in largest if name not in others and present[name] < len(mappings)]
    whole = {name for name in upcast if largest[name] < EXACT}
    lost = [name for name in upcast if name not in whole]
    return [_whole(row, whole) if isinstance(row, Mapping) else row for row in rows], lost


def _whole(row: Mapping[str, Any], columns: set[str]) -> Mapping[str, Any]:
    """A row with the numbers of some columns turned into integers."""
    numbers = {
        name: int(plain(row[name])) for name in columns & row.keys() if not missing(row[name])
    }
    return {**row, **numbers} if numbers else row


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
    """The date and time that a text states in ISO form, midnight for a date alone; the text itself
    if it is neither."""
    try:
        return datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return text
