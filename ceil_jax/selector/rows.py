"""Users' rows → `Example`s; a row that could not be saved, shown or encoded is refused here, at the door."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example

Row = Example | Mapping[str, Any]
"""An Example, or {"input": …, "output": …}, with id, choices, references and metadata if wanted."""

_OWN = ("id", "input", "output", "choices", "references")


def read_examples(rows: Iterable[Row]) -> list[Example]:
    """Return an Example for each row; its id is empty where the row has none.

    Raises:
        UserError: a row that is no example, named by its number and field.
    """
    if isinstance(rows, (str, Mapping, Example)):
        raise UserError("examples: expected a list of examples, found one; put it into a list")
    return [_example(row, f"examples, row {number}") for number, row in enumerate(rows, 1)]


def read_queries(queries: Iterable[str | Row]) -> list[Example]:
    """Return an Example for each query; its id is empty where none is given, and its output does not matter.

    Raises:
        UserError: one query in place of a list, or what is no query, named by its number and field.
    """
    if isinstance(queries, (str, Mapping, Example)):
        raise UserError("queries: expected a list of queries, found one; put it into a list")
    return [_query(query, f"query {number}") for number, query in enumerate(queries, 1)]


def _query(query: str | Row, where: str) -> Example:
    if isinstance(query, str):
        query = {"input": query}
    if isinstance(query, Mapping):
        query = {**query, "output": query.get("output") or ""}
    return _example(query, where)


def _example(row: Row, where: str) -> Example:
    if isinstance(row, Example):
        return _checked(row, where)
    if not isinstance(row, Mapping):
        raise UserError(
            f"{where}: expected an Example or {{'input': …, 'output': …}}, found {type(row).__name__}"
        )
    for name in ("input", "output"):
        if name not in row:
            raise UserError(f"{where}: no field {name!r}; it has {', '.join(map(str, row)) or 'none'}")
    example = Example(
        _id(row.get("id"), where),
        row["input"],
        row["output"],
        _several(row.get("choices"), where, "choices"),
        _several(row.get("references"), where, "references"),
    )
    fields = {
        _name(name, where): _metadata(value, where, name)
        for name, value in row.items()
        if name not in _OWN and value is not None
    }
    return _checked(replace(example, fields=MappingProxyType(fields)) if fields else example, where)


def _checked(example: Example, where: str) -> Example:
    """The example itself, every text of which can be written and read again."""
    if not isinstance(example.input, str) or not example.input.strip():
        raise UserError(
            f"{where}: field 'input': expected a text that is not empty, found {example.input!r:.60}"
        )
    for name in ("id", "input", "output"):
        _text(getattr(example, name), where, name)
    for name in ("choices", "references"):
        for value in _several(getattr(example, name), where, name):
            _text(value, where, name)
    if not isinstance(example.fields, Mapping):
        raise UserError(f"{where}: metadata is {example.fields!r:.60}; expected {{'name': 'text'}}")
    for name, value in example.fields.items():
        _text(value, where, _name(name, where))
    return example


def _text(value: Any, where: str, name: str) -> None:
    if not isinstance(value, str):
        raise UserError(f"{where}: field {name!r}: expected a text, found {value!r:.60}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where}: field {name!r}: half a character, {value[error.start]!r}, at place {error.start}, as a wrong "
            "decoding or a cut inside an emoji leaves it; decode the text again, or remove it"
        ) from None


def _id(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, (str, int)):
        raise UserError(f"{where}: field 'id': expected a text or a whole number, found {value!r:.60}")
    return str(value)


def _several(value: Any, where: str, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise UserError(f"{where}: field {name!r}: expected a list of texts, found {value!r:.60}")
    return tuple(value)


def _name(name: Any, where: str) -> str:
    if not isinstance(name, str) or not name:
        raise UserError(
            f"{where}: a metadata field is called {name!r:.60}; expected a text that is not empty"
        )
    _text(name, where, "name of a metadata field")
    return name


def _metadata(value: Any, where: str, name: str) -> str:
    """Metadata are texts; numbers and truth values are written out."""
    if not isinstance(value, (str, int, float)):
        raise UserError(
            f"{where}: field {name!r}: metadata are texts, numbers or truth values, not {type(value).__name__}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(
            f"{where}: field {name!r}: found {value}; expected a finite number; leave the field out (or None) where "
            "the value is unknown"
        )
    return str(value)
