"""Users' rows, files and data frames → `Example`s, by the rules of `tasks.rows`; ids, choices and
references too."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.files import TableLike, read_table
from ceil_jax.tasks.rows import (
    Columns,
    examples_of,
    ids_of_rows,
    list_of_texts,
    row_example,
    valid,
)
from ceil_jax.tasks.spec import RowError
from ceil_jax.tasks.tables.frames import frame_rows, is_frame
from ceil_jax.tasks.tables.table_rows import numbered_rows

ExampleLike = Example | Mapping[str, Any]
"""An Example, or {"input": …, "output": …}, with id, choices, references and metadata if wanted."""

OWN = ("id", "input", "output", "choices", "references")
"""The names of an example's own fields; what else a row has is metadata."""

_HINT = "say which is meant with input_key=… and output_key=…"


def as_examples(
    rows: Iterable[str | ExampleLike] | Any,
    columns: Columns,
    source: str = "examples",
    unit: str = "row",
    *,
    answered: bool = True,
    names: Sequence[Any] | None = None,
) -> list[Example]:
    """Return an Example for each row; its id is empty where the row has none.

    Args:
        rows: a list of Examples and mappings, or a table in memory (`tables.frames.frame_rows`).
        columns: which columns have a role.
        source: what messages call the rows.
        unit: what they call one of them, with its number.
        answered: whether rows must have outputs. Queries need none, and may also be texts.
        names: the names of the rows in messages, in place of their numbers.

    Raises:
        UserError: no list and no table, or a row that is no example; the message names its place
            and field.
    """
    frame = None if isinstance(rows, Example) else frame_rows(rows)
    rows_given = _listed(rows, source) if frame is None else list(frame.rows)
    plain = all(isinstance(row, Mapping) for row in rows_given)
    needed: tuple[str, ...] = ()
    if plain:
        needed = (*columns.input, columns.output) if answered else columns.input
    table = numbered_rows(source, rows_given, unit).with_whole_numbers()
    ids = frame is None or ids_of_rows(table)  # ids of a list are meant, and refused if they repeat
    read = partial(_example, columns=columns, answered=answered, ids=ids)
    examples = examples_of(replace(table, lines=names or table.lines), "", needed, read, hint=_HINT)
    if answered:
        columns.note(source)
    return examples


def _listed(rows: Any, source: str) -> list[Any]:
    """The rows of what should be a list of them."""
    if isinstance(rows, str | os.PathLike):
        raise UserError(
            f"{source}: expected a list of {source}, found one text, {str(rows)[:60]!r}; put it "
            "into a list, or give a file to CeilSelector.from_csv"
        )
    if isinstance(rows, Mapping | Example):
        raise UserError(f"{source}: expected a list of {source}, found one; put it into a list")
    if not isinstance(rows, Iterable):
        raise UserError(f"{source}: expected a list of {source}, found {type(rows).__name__}")
    listed = list(rows)
    if tables := [row for row in listed if is_frame(row)]:
        raise UserError(
            f"{source}: expected a list of rows, found a list of tables "
            f"({type(tables[0]).__name__}); give one table itself"
        )
    return [_mapping(row) for row in listed]


def _mapping(row: Any) -> Any:
    """A row that has columns by name and is no mapping, such as one of SQLite or pandas, as a
    mapping; any other as it is."""
    if isinstance(row, Mapping | Example) or not callable(getattr(row, "keys", None)):
        return row
    return dict(row)


def table_examples(
    table: TableLike, columns: Columns, delimiter: str | None = None, *, skip_bad_rows: bool = False
) -> list[Example]:
    """Return an Example for each row of a file or data frame, which `read_table` reads.

    A column `id` without repetitions gives the ids, and columns `choices` and `references` with
    lists of texts give those; any other column of these names is metadata like the rest.

    Args:
        table: a file or a data frame.
        columns: the names of the columns of inputs and outputs.
        delimiter: what separates values; by default what the file's name and content say.
        skip_bad_rows: leave out rows that are no examples, with a warning that lists them; refused
            by default.

    Raises:
        UserError: the table cannot be read, or a row is no example.
    """
    split = read_table(table, delimiter)
    read = partial(_example, columns=columns, ids=ids_of_rows(split))
    examples = examples_of(split, "", columns.used, read, skip_bad_rows=skip_bad_rows, hint=_HINT)
    columns.note(split.source)
    return examples


def _example(
    _: str, row: Any, columns: Columns, *, ids: bool = True, answered: bool = True
) -> Example:
    if isinstance(row, str) and not answered:
        row = Example("", row, "")
    if not answered:
        columns = replace(
            columns, named=()
        )  # a selection without its prompt needs no more than the input
    if isinstance(row, Example):
        return valid(row, answered)
    if not isinstance(row, Mapping):
        raise RowError(
            f"expected an Example or {{'input': …, 'output': …}}, found {type(row).__name__}"
        )
    lists: dict[str, Any] = {
        name: several
        for name in ("choices", "references")
        if name not in columns.used and (several := list_of_texts(row, name)) is not None
    }
    rest = {name: value for name, value in row.items() if name not in lists}
    example = replace(row_example("", rest, columns, answered=answered, ids=ids), **lists)
    return valid(example, answered, columns.output) if lists else example
