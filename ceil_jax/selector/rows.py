"""Users' rows, files and data frames → `Example`s, by the rules of `tasks.rows`; ids, choices and references too."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.files import TableLike, TableRows, numbered_rows, read_table
from ceil_jax.tasks.rows import (
    Columns,
    as_text,
    check_text,
    examples_of,
    list_of_texts,
    missing,
    row_example,
)
from ceil_jax.tasks.spec import FieldError, RowError

log = logging.getLogger(__name__)

Row = Example | Mapping[str, Any]
"""An Example, or {"input": …, "output": …}, with id, choices, references and metadata if wanted."""

OWN = ("id", "input", "output", "choices", "references")
"""The names of an example's own fields; what else a row has is metadata."""


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
    rows: Iterable[Row], keys: Keys = PLAIN, source: str = "examples", unit: str = "row"
) -> list[Example]:
    """Return an Example for each row; its id is empty where the row has none.

    Args:
        rows: Examples or mappings.
        keys: the names of a mapping's input and output.
        source: the name of the rows in a message.
        unit: the name of one of them.

    Raises:
        UserError: a row that is no example, named by its place and field.
    """
    columns = Columns((keys.input,), keys.output)
    found = _read(rows, columns, source, unit, answered=True)
    columns.note(source)
    return found


def read_queries(queries: Iterable[str | Row], keys: Keys = PLAIN) -> list[Example]:
    """Return an Example for each query; its id is empty where none is given, and its output does not matter.

    Args:
        queries: texts, or Examples or mappings with at least an input.
        keys: the names of a mapping's input and output.

    Raises:
        UserError: one query in place of a list, or what is no query, named by its number and field.
    """
    return _read(queries, Columns((keys.input,), keys.output), "queries", "query", answered=False)


def read_rows(
    table: TableLike, keys: Keys, delimiter: str | None = None, *, skip_bad_rows: bool = False
) -> list[Example]:
    """Return an Example for each row of a file or data frame.

    A column `id` without repetitions gives the ids, and columns `choices` and `references` with lists of texts give
    those; any other column of these names is metadata like the rest.

    Args:
        table: a path, or a pandas or polars data frame.
        keys: the columns of input and output.
        delimiter: what separates the values of a text file.
        skip_bad_rows: leave out rows that are no examples, with a warning that lists them.

    Raises:
        UserError: the table cannot be read, or a row is no example, named by its line.
    """
    split = read_table(table, delimiter)
    columns = Columns((keys.input,), keys.output)
    ids = "id" not in keys and _are_ids(split)
    found = examples_of(
        split,
        "",
        keys,
        lambda _, row: _example(row, columns, ids=ids),
        skip_bad_rows=skip_bad_rows,
        hint="input_key=… and output_key=… name the columns",
    )
    columns.note(split.source)
    return found


def _are_ids(split: TableRows) -> bool:
    """Whether the column `id` tells the rows apart; a note names the lines of an id that repeats."""
    lines = defaultdict(list)
    for row, line in zip(split.rows, split.lines, strict=True):
        if not isinstance(row, RowError) and (id := as_text(row.get("id"))):
            lines[id].append(line)
    repeated = {id: where for id, where in lines.items() if len(where) > 1}
    if repeated:
        id, where = next(iter(repeated.items()))
        log.warning(
            "%s: column 'id' repeats (%r in %ss %s; %d such): it is metadata, and examples get ids of their own",
            *(split.source, id, split.unit, ", ".join(map(str, where[:5])), len(repeated)),
        )
    return not repeated


def _read(
    rows: Iterable[str | Row], columns: Columns, source: str, unit: str, *, answered: bool
) -> list[Example]:
    if isinstance(rows, (str, Mapping, Example)):
        raise UserError(f"{source}: expected a list of {source}, found one; put it into a list")
    given: list[Any] = list(rows)
    split = numbered_rows(source, given, unit)
    return examples_of(split, "", (), lambda _, row: _row(row, columns, answered))


def _row(row: Any, columns: Columns, answered: bool) -> Example:
    if isinstance(row, str) and not answered:
        row = Example("", row, "")
    if isinstance(row, Example):
        return _checked(row, answered)
    if not isinstance(row, Mapping):
        raise RowError(f"expected an Example or {{'input': …, 'output': …}}, found {type(row).__name__}")
    needed = (*columns.input, *[columns.output][: int(answered)])
    for argument, name in zip(("input_key", "output_key"), needed, strict=False):
        if name not in row:
            raise RowError(
                f"no field {name!r}; it has {', '.join(map(repr, row)) or 'none'}; say which one is meant with "
                f"{argument}=…"
            )
    id = row.get("id")
    if not ("id" in needed or id is None or isinstance(id, str | int)):
        raise FieldError("id", "a text or a whole number", id)
    return _example(row, columns, answered=answered, ids="id" not in needed)


def _example(row: Mapping[str, Any], columns: Columns, *, ids: bool, answered: bool = True) -> Example:
    own: dict[str, Any] = {
        name: several
        for name in ("choices", "references")
        if name not in columns.used and (several := list_of_texts(row, name)) is not None
    }
    id = "" if not ids or missing(row.get("id")) else str(row["id"])
    check_text("id", id)
    rest = {name: value for name, value in row.items() if name not in own and not (ids and name == "id")}
    return replace(row_example(id, rest, columns, answered=answered), **own)


def _checked(example: Example, answered: bool) -> Example:
    """The example itself, every text of which can be written and read again."""
    fields = example.fields
    if not isinstance(fields, Mapping) or not all(isinstance(name, str) for name in fields):
        raise FieldError("fields", "{'name': 'text'}", fields)
    several = (
        (name, value) for name in ("choices", "references", "parts") for value in getattr(example, name)
    )
    own = (("id", example.id), ("input", example.input), ("output", example.output))
    for name, value in (*own, *several, *fields.items()):
        if not isinstance(value, str):
            raise FieldError(name, "a text", value)
        check_text(name, value)
    for name, value in own[1 : 2 + answered]:
        if not value.strip():
            raise FieldError(name, "a text that is not empty", value)
    return example
