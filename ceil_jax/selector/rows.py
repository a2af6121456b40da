"""What users call an example, read into an Example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example

Row = Example | Mapping[str, Any]
"""An Example, or {"input": …, "output": …} with id, choices, references and metadata if wanted."""

_OWN = ("id", "input", "output", "choices", "references")


def read_examples(rows: Iterable[Row]) -> list[Example]:
    """Examples; the id is empty where none is given.

    Raises:
        UserError: a row that is no example, by its number and field.
    """
    if isinstance(rows, (str, Mapping, Example)):
        raise UserError("examples: expected a list of examples, found one; put it into a list")
    return [_example(row, f"examples, row {number}") for number, row in enumerate(rows, 1)]


def read_queries(queries: Iterable[str | Row]) -> list[Example]:
    """Queries; the id is empty where none is given, the output does not matter.

    Raises:
        UserError: one query in place of a list, or what is no query, by its number and field.
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
        _text(row.input, f"{where}: field 'input'")
        _several(row.choices, f"{where}: field 'choices'")
        _several(row.references, f"{where}: field 'references'")
        return row
    if not isinstance(row, Mapping):
        raise UserError(
            f"{where}: expected an Example or {{'input': …, 'output': …}}, found {type(row).__name__}"
        )
    for name in ("input", "output"):
        if name not in row:
            raise UserError(f"{where}: no field {name!r}; it has {', '.join(map(str, row)) or 'none'}")
    if not isinstance(row["output"], str):
        raise UserError(f"{where}: field 'output': expected a text, found {row['output']!r}")
    example = Example(
        "" if row.get("id") is None else str(row["id"]),
        _text(row["input"], f"{where}: field 'input'"),
        row["output"],
        _several(row.get("choices"), f"{where}: field 'choices'"),
        _several(row.get("references"), f"{where}: field 'references'"),
    )
    fields = {
        name: _plain(value, f"{where}: field {name!r}")
        for name, value in row.items()
        if name not in _OWN and value is not None
    }
    return replace(example, fields=MappingProxyType(fields)) if fields else example


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{what}: expected a text that is not empty, found {value!r}")
    return value


def _several(value: Any, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise UserError(f"{what}: expected a list of texts, found {value!r:.60}")
    return tuple(value)


def _plain(value: Any, what: str) -> str:
    """Metadata are texts; numbers and truth values are written out."""
    if not isinstance(value, (str, int, float)):
        raise UserError(f"{what}: metadata are texts, numbers or truth values, not {type(value).__name__}")
    return str(value)
