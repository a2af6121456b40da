"""JSON to rows: a list of objects, one object per line, or one object that holds all rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ceil_jax.tasks.spec import Row, RowError
from ceil_jax.tasks.tables.table_rows import FILE, TableError, TableRows, numbered_rows

_WRAPPERS = (
    "data",
    "rows",
    "examples",
    "records",
    "items",
    "instances",
    "samples",
    "entries",
    "results",
    "documents",
)
"""The names under which files put all rows, beside a version and the like."""
_SPEAKERS = ("role", "from", "speaker")
_SAID = ("content", "value", "text", "tool_calls")

_BLANKS = re.compile(r"\s*")


def is_json(text: str) -> bool:
    """Return whether a text begins with a JSON object or with a list of JSON objects."""
    start = _BLANKS.match(text).end()  # type: ignore[union-attr]
    if text[start : start + 1] not in ("{", "["):
        return False
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)
    )


def json_rows(text: str) -> TableRows:
    """Return the rows of a JSON text, whose layout is recognised.

    It may be a list of objects; objects one after the other, one per line or over several lines; or
    one object that holds all rows: by number, by id, by column (as pandas writes them), as a list
    of columns and a list of lists, or as a list under its only key.

    Raises:
        TableError: the text is not JSON, perhaps because it is cut off; or it is one object that
            holds no rows.
    """
    if text.lstrip().startswith("["):
        return _list_rows(text)
    lines = [line.rstrip("\r") for line in text.split("\n" if "\n" in text else "\r")]
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    rows = [_object(line) for _, line in numbered]
    # one object on one line: a row, or an object that holds all rows
    if len(rows) == 1 and isinstance(rows[0], dict):
        inner_rows = rows_of_object(rows[0])
        if inner_rows is not None:
            return numbered_rows(inner_rows)
        if len(tables := _tables_of(rows[0])) > 1:
            raise TableError(_one_object(tables))
        return TableRows(rows, [number for number, _ in numbered])
    # objects over several lines
    objects = _one_after_the_other(text) if rows and isinstance(rows[0], RowError) else []
    if objects:
        if len(objects) > 1:
            return TableRows([row for _, row in objects], [line for line, _ in objects])
        [(line, only)] = objects
        inner_rows = rows_of_object(only)
        if inner_rows is not None:
            return numbered_rows(inner_rows)
        if _holds_conversation(only):
            return TableRows([only], [line])
        raise TableError(_one_object([n for n, value in only.items() if isinstance(value, list)]))
    if rows and all(isinstance(row, RowError) for row in rows):
        raise TableError(
            f"{FILE}, line {numbered[0][0]}: {rows[0]}; if it is a table of separated values, name "
            "it .csv"
        )
    return TableRows(rows, [number for number, _ in numbered])


def _one_object(lists: Sequence[str]) -> str:
    return (
        f"{FILE} is one object, expected a list of rows or one a line; keys with lists: "
        f"{', '.join(map(repr, lists)) or 'none'}"
        + ("; write the list that is meant to a file of its own" if len(lists) > 1 else "")
    )


def _list_rows(text: str) -> TableRows:
    try:
        values = json.loads(text, object_pairs_hook=_mapping)
    except (ValueError, RecursionError) as error:
        at = getattr(error, "pos", 0)
        if at >= len(text.rstrip()) or "Unterminated" in str(error):
            tail = " ".join(text[-60:].split())
            raise TableError(
                f"{FILE}: not JSON ({error}); it ends too early, after {tail!r}: the file may be "
                "cut, fetch or write it again"
            ) from None
        raise TableError(f"{FILE}: not JSON ({error}): {text.strip()[:60]!r}") from None
    if not isinstance(values, list):
        return numbered_rows([row_of(values)])
    return numbered_rows([row_of(value) for value in values])


def _object(text: str) -> Row | RowError:
    try:
        # files with byte order marks that were joined have some in the middle
        value = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_mapping)
    except (ValueError, RecursionError) as error:
        return RowError(f"not JSON ({error}): {text.strip()[:60]!r}")
    return row_of(value)


def _one_after_the_other(text: str) -> list[tuple[int, dict[str, Any]]]:
    """The line and value of each object of a text, over any number of lines; empty if the text has
    anything but objects."""
    decoder = json.JSONDecoder(object_pairs_hook=_mapping)
    objects: list[tuple[int, dict[str, Any]]] = []
    line = 1
    end = 0
    while (start := _BLANKS.match(text, end).end()) < len(text):  # type: ignore[union-attr]
        line += text.count("\n", end, start)
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        objects.append((line, value))
        line += text.count("\n", start, end)
    return objects


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError(f"a name stands twice among {', '.join(name for name, _ in pairs)}")
    return mapping


def row_of(value: Any) -> Row | RowError:
    """Return a mapping of columns to values as a row; a RowError for any other value."""
    if isinstance(value, Mapping):
        return value
    return RowError(f"expected an object of columns, found {type(value).__name__}")


def rows_of_object(value: Mapping[str, Any]) -> list[Row] | None:
    """Return the rows that one object holds; None if it holds none, for example because it is a row
    itself.

    >>> rows_of_object({"0": {"text": "a"}, "1": {"text": "b"}})
    [{'text': 'a'}, {'text': 'b'}]
    >>> rows_of_object({"text": {"0": "a", "1": "b"}, "label": {"0": "x", "1": "y"}})
    [{'text': 'a', 'label': 'x'}, {'text': 'b', 'label': 'y'}]
    >>> rows_of_object({"text": ["a", "b"], "label": ["x", "y"]})
    [{'text': 'a', 'label': 'x'}, {'text': 'b', 'label': 'y'}]
    >>> rows_of_object({"version": 1, "data": [{"text": "a"}, {"text": "b"}]})
    [{'text': 'a'}, {'text': 'b'}]
    >>> rows_of_object({"text": "a", "label": "x"}) is None
    True
    >>> rows_of_object({"messages": [{"role": "user", "content": "hi"}]}) is None
    True
    """
    parts = list(value.values())
    if not parts:
        return None
    names = value.get("columns")
    data = value.get("data")
    if isinstance(names, list) and isinstance(data, list) and _is_table(names, data):
        return [dict(zip(map(str, names), row, strict=True)) for row in data]
    if {*value} == {"schema", "data"} and isinstance(data, list):
        return data if all(isinstance(row, dict) for row in data) else None
    if all(isinstance(part, dict) for part in parts):
        return _rows_of_objects(value)
    if _holds_conversation(value):
        return None
    tables = _tables_of(value)
    wrapped = [name for name in tables if len(parts) == 1 or name.lower() in _WRAPPERS]
    if len(wrapped) == 1:
        return list(value[wrapped[0]])
    if not all(isinstance(part, list) and part for part in parts):
        return None
    objects = [isinstance(item, dict) for part in parts for item in part]
    if any(objects) or len({len(part) for part in parts}) > 1:
        return None
    return [dict(zip(value, row, strict=True)) for row in zip(*parts, strict=True)]


def _tables_of(value: Mapping[str, Any]) -> list[str]:
    """The names under which an object has lists of objects; none if it is a row whose messages are
    objects."""
    if _holds_conversation(value):
        return []
    return [name for name, part in value.items() if _is_list_of_objects(part)]


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _holds_conversation(value: Mapping[str, Any]) -> bool:
    """Whether a value of an object is the messages of a conversation, as OpenAI or ShareGPT write
    them."""
    return any(
        _is_list_of_objects(part)
        and all({*_SPEAKERS} & {*turn} and {*_SAID} & {*turn} for turn in part)
        for part in value.values()
    )


def _is_table(names: Sequence[Any], data: Sequence[Any]) -> bool:
    return all(isinstance(row, list) and len(row) == len(names) for row in data)


def _rows_of_objects(value: Mapping[str, Mapping[str, Any]]) -> list[Row] | None:
    """The rows of an object whose values are objects: keyed by number, by column and number, or by
    id; None if it is none of these."""
    inner = list(value.values())
    numbers = dict.fromkeys(number for part in inner for number in part)
    # {"0": {"text": …}}
    if _are_numbers(value):
        return list(inner)
    # {"text": {"0": …}}
    if numbers and _are_numbers(numbers):
        return [
            {name: part[number] for name, part in value.items() if number in part}
            for number in numbers
        ]
    # {"some id": {"text": …, "label": …}}: rows have columns in common
    shared = set.intersection(*({*part} for part in inner))
    if len(inner) > 1 and len(shared) > 1:
        return [{"id": id, **row} for id, row in value.items()]
    return None


def _are_numbers(names: Mapping[str, Any]) -> bool:
    return all(name.isascii() and name.isdigit() for name in names)
