"""A row of somebody's table → an Example: what is used is checked, what is not used comes along if it can."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ceil_jax.tasks.example import Example
from ceil_jax.tasks.formats import check_cell
from ceil_jax.tasks.spec import FieldError, Row, RowError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Columns:
    """The columns of a table that are used, and a count of those that could not come along."""

    input: tuple[str, ...] = ("input",)
    """The columns of the retrieval text; several are joined by a blank."""
    output: str = "output"
    named: tuple[str, ...] = ()
    """Further columns that a template or a metric needs."""
    left_out: Counter[str] = field(default_factory=Counter)
    """How many rows had a value in a column that nobody asked for and that is no text; `note` says it."""

    @property
    def used(self) -> tuple[str, ...]:
        """The names of all columns that a row must have."""
        return tuple(dict.fromkeys((*self.input, self.output, *self.named)))

    def note(self, source: str) -> None:
        """Say once, as a warning, which columns were left out.

        Args:
            source: the table's name.
        """
        if self.left_out:
            names = ", ".join(f"{name!r} ({count:,} rows)" for name, count in self.left_out.items())
            what = "values that are no text, number or date, or whose column has no name,"
            log.warning("%s: %s were left out: columns %s", source, what, names)


def row_example(id: str, row: Row, columns: Columns, *, answered: bool = True) -> Example:
    """Return a row as an example. All columns but those of input and output become its `fields`, as texts.

    Numbers, truth values and dates become texts, as Python writes them. A missing value (None, NaN, an empty cell)
    leaves its field out.

    Args:
        id: the example's id.
        row: column → value.
        columns: what is used.
        answered: whether the output must be there; False for a query.

    Raises:
        FieldError: a used column is missing, empty, no text or number, or cannot be written.
    """
    parts = tuple(_needed(row, name).strip() for name in columns.input)
    output = _needed(row, columns.output).strip() if answered or not missing(row.get(columns.output)) else ""
    fields = {}
    for name, value in row.items():
        if name in columns.named:
            fields[name] = _shown(row, name)
        elif name == columns.output or name in columns.input or _empty(value):
            continue
        elif name and _carried(name) == name and (text := _carried(value)) is not None:
            fields[name] = text
        else:
            columns.left_out[name] += 1
    return Example(id, " ".join(parts), output, fields=fields, parts=parts if len(parts) > 1 else ())


def as_text(value: Any) -> str | None:
    """Return a cell's value as text; None where it is missing, a container, bytes, or an infinite number."""
    if isinstance(value, str):
        return value
    container = isinstance(value, Mapping | list | tuple | set | bytes) or _is_array(value)
    infinite = isinstance(value, float) and not math.isfinite(value)
    return None if container or infinite or missing(value) else str(value)


def texts(row: Row, name: str) -> tuple[str, ...] | None:
    """Return a field that is a list (or an array) of texts or numbers; None where it is none.

    Raises:
        FieldError: a text of it cannot be written.
    """
    value = row.get(name)
    items = value.tolist() if value is not None and _is_array(value) else value
    if not isinstance(items, list | tuple):
        return None
    found = [as_text(item) for item in items]
    return tuple(check_text(name, text) for text in found if text is not None) if None not in found else None


def missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, or pandas' NaN, NaT and NA, which are not equal to themselves."""
    if value is None or _is_array(value):
        return value is None
    # NA == NA is NA, which is neither
    return str(value == value) != "True"


def _empty(value: Any) -> bool:
    return missing(value) or (isinstance(value, str) and not value)


def _is_array(value: Any) -> bool:
    return bool(getattr(value, "shape", ()))  # a number of numpy's has the shape ()


def _needed(row: Row, name: str) -> str:
    value = row.get(name)
    # annotation tools write the label of a text as a list
    text = as_text(value[0] if isinstance(value, list) and len(value) == 1 else value)
    if text is None or not text.strip():
        raise FieldError(name, "a text that is not empty", row.get(name))
    return check_text(name, text)


def _shown(row: Row, name: str) -> str:
    text = as_text(row.get(name))
    if text is None:
        raise FieldError(
            name, "text or a finite number, which the template or the metric needs", row.get(name)
        )
    return check_text(name, text)


def check_text(name: str, text: str) -> str:
    """Return a text that can be written and is not too long.

    Raises:
        FieldError: it is too long, or has half a character (a surrogate), as a cut inside an emoji leaves it.
    """
    check_cell(name, text)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"text without half a character ({text[error.start]!r} at place {error.start})"
        raise FieldError(name, half, text) from None
    return text


def _carried(value: Any) -> str | None:
    """A value that nobody asked for, as text; None where it cannot come along."""
    try:
        text = as_text(value)
        return None if text is None else check_text("", text)
    except RowError:
        return None
