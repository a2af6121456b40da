"""Users' rows → `Example`s; a row that could not be saved, shown or encoded is refused here, at the door."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.files import read_split

Row = Example | Mapping[str, Any]
"""An Example, or {"input": …, "output": …}, with id, choices, references and metadata if wanted."""

OWN = ("id", "input", "output", "choices", "references")
"""Fields of a row with a fixed meaning; others are metadata."""


class Keys(NamedTuple):
    """The names of a row's input and output."""

    input: str = "input"
    output: str = "output"

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Keys:
        """Return those that some settings name."""
        return cls(settings.get("input_key", "input"), settings.get("output_key", "output"))


PLAIN = Keys()


def read_examples(
    rows: Iterable[Row], keys: Keys = PLAIN, where: Callable[[int], str] = lambda i: f"examples, row {i + 1}"
) -> list[Example]:
    """Return an Example for each row; its id is empty where the row has none.

    Args:
        rows: Examples or mappings.
        keys: what a mapping's input and output are called.
        where: the name of the i-th row (from 0) in a message.

    Raises:
        UserError: a row that is no example, named by its place and field.
    """
    if isinstance(rows, (str, Mapping, Example)):
        raise UserError("examples: expected a list of examples, found one; put it into a list")
    return [_example(row, where(i), keys) for i, row in enumerate(rows)]


def read_queries(queries: Iterable[str | Row], keys: Keys = PLAIN) -> list[Example]:
    """Return an Example for each query; its id is empty where none is given, and its output does not matter.

    Args:
        queries: texts, or Examples or mappings with at least an input.
        keys: what a mapping's input and output are called.

    Raises:
        UserError: one query in place of a list, or what is no query, named by its number and field.
    """
    if isinstance(queries, (str, Mapping, Example)):
        raise UserError("queries: expected a list of queries, found one; put it into a list")
    return [_query(query, f"query {number}", keys) for number, query in enumerate(queries, 1)]


def read_file(file: Path, keys: Keys) -> list[Example]:
    """Return an Example for each row of a .csv, .jsonl, .json or .parquet file; an empty cell is a missing value.

    Raises:
        UserError: no such file, or a row that is no example, named by its line.
    """
    split = read_split(file)
    rows = (
        {name: None if value == "" and name not in keys else value for name, value in row.items()}
        for row in split.rows
    )
    return read_examples(rows, keys, split.where)


def read_frame(frame: Any, keys: Keys) -> list[Example]:
    """Return an Example for each row of a pandas or polars data frame.

    Missing values become None, which leaves a metadata field out. Numbers, dates and the like become texts in the two
    columns that are texts, and in metadata.

    Raises:
        UserError: not a data frame, or a row that is no example, named by its number.
    """
    if hasattr(frame, "to_dicts"):
        rows = frame.to_dicts()
    elif hasattr(frame, "to_dict") and hasattr(frame, "columns"):
        rows = frame.to_dict("records")
    else:
        raise UserError(f"expected a pandas or polars data frame, found {type(frame).__name__}")
    cells = ({name: _cell(value) for name, value in row.items()} for row in rows)
    return read_examples(cells, keys, lambda i: f"data frame, row {i + 1}")


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (str, list, tuple)):
        return value
    # NaN, NaT and pandas' NA are not equal to themselves, or do not say
    if (equal := value == value) is not True and str(equal) != "True":
        return None
    return str(value)


def _query(query: str | Row, where: str, keys: Keys) -> Example:
    if isinstance(query, str):
        query = {keys.input: query}
    if isinstance(query, Mapping):
        query = {**query, keys.output: query.get(keys.output) or ""}
    return _example(query, where, keys)


def _example(row: Row, where: str, keys: Keys) -> Example:
    if isinstance(row, Example):
        return _checked(row, where)
    if not isinstance(row, Mapping):
        raise UserError(
            f"{where}: expected an Example or {{'input': …, 'output': …}}, found {type(row).__name__}"
        )
    for argument, name in zip(("input_key", "output_key"), keys, strict=True):
        if name not in row:
            raise UserError(
                f"{where}: no field {name!r}; it has {', '.join(map(str, row)) or 'none'}; say which one is meant "
                f"with {argument}=…"
            )
    own = {*OWN, *keys}
    for name in {"input", "output"} - {*keys}:
        if name in row:
            raise UserError(f"{where}: a field {name!r} beside {keys.input!r} and {keys.output!r}; rename it")
    example = Example(
        _id(row.get("id"), where),
        row[keys.input],
        row[keys.output],
        _several(row.get("choices"), where, "choices"),
        _several(row.get("references"), where, "references"),
    )
    fields = {
        _name(name, where): _metadata(value, where, name)
        for name, value in row.items()
        if name not in own and value is not None
    }
    return _checked(replace(example, fields=MappingProxyType(fields)) if fields else example, where, keys)


def _checked(example: Example, where: str, keys: Keys = PLAIN) -> Example:
    """The example itself, every text of which can be written and read again."""
    if not isinstance(example.input, str) or not example.input.strip():
        raise UserError(
            f"{where}: field {keys.input!r}: expected a text that is not empty, found {example.input!r:.60}"
        )
    for name, value in (("id", example.id), (keys.input, example.input), (keys.output, example.output)):
        _text(value, where, name)
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
