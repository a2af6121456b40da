"""Users' rows, files and data frames as `Example`s with ids, choices and references.

The rules are those of `tasks.rows`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.checks import valid
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.rows import Columns, examples_of, ids_of_rows, list_of_texts, row_example
from ceil_jax.tasks.spec import RowError
from ceil_jax.tasks.tables import Table, TableLike, frame_table, read_table

ExampleLike = Example | Mapping[str, Any]
"""An Example, or {"input": …, "output": …} with optional id, choices, references and metadata."""

OWN = ("id", "input", "output", "choices", "references")
"""The names of an example's own fields; all other columns of a row are metadata."""

_HINT = "say which is meant with input_key=… and output_key=…"


def as_examples(
    rows: Iterable[str | ExampleLike] | Any,
    columns: Columns,
    source: str = "examples",
    unit: str = "row",
    *,
    answered: bool = True,
) -> list[Example]:
    """Return an Example for each row; its id is "" if the row has none.

    Args:
        rows: a list of Examples and mappings, or a table in memory (`tables.frame_table`).
        columns: which columns have a role.
        source: the name of the rows in messages.
        unit: the word for one of them in messages, before its number.
        answered: whether rows must have outputs. Queries need not, and may also be texts.

    Raises:
        UserError: `rows` is neither a list nor a table, or a row is not an example; the message
            names the row and the field.
    """
    frame = frame_table(rows)
    listed = _listed(rows, source) if frame is None else frame.rows
    table = Table(listed, source, unit=unit)
    plain = all(isinstance(row, Mapping) for row in table.rows)
    needed: tuple[str, ...] = ()
    if plain:
        needed = (*columns.input, columns.output) if answered else columns.input
    # ids in a list are taken as such, and refused if they repeat
    ids = frame is None or ids_of_rows(table)
    read = partial(_example, columns=columns, answered=answered, ids=ids)
    examples = examples_of(table, "", needed, read, hint=_HINT)
    if answered:
        columns.note(source)
    return examples


def _listed(rows: Any, source: str) -> list[Any]:
    """The rows as a list. A UserError if they are not a list of rows."""
    found = type(rows).__name__
    if isinstance(rows, str | os.PathLike):
        found = (
            f"one text, {str(rows)[:60]!r}; put it into a list, or give a file to "
            "CeilSelector.from_csv"
        )
    elif isinstance(rows, Mapping | Example):
        found = "one; put it into a list"
    elif isinstance(rows, Iterable):
        return list(rows)
    raise UserError(f"{source}: expected a list of {source}, found {found}")


def table_examples(
    table: TableLike,
    columns: Columns,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    *,
    skip_bad_rows: bool = False,
) -> list[Example]:
    """Return an Example for each row of a file or data frame, which `read_table` reads.

    A column `id` without repetitions gives the ids; columns `choices` and `references` with lists
    of texts give choices and references. Otherwise columns of these names are metadata.

    Args:
        table: a file or a data frame.
        columns: the names of the columns of inputs and outputs.
        delimiter: the character between values; by default the one that the header shows.
        encoding: the encoding of a text file.
        skip_bad_rows: whether rows that are not examples are left out, with a warning that lists
            them; refused by default.

    Raises:
        UserError: the table cannot be read, or a row is not an example.
    """
    split = read_table(table, delimiter, encoding)
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
        columns = replace(columns, named=())  # a selection without its prompt needs only the input
    if isinstance(row, Example):
        return valid(row, answered)
    if not isinstance(row, Mapping):
        raise RowError(
            f"expected an Example or {{'input': …, 'output': …}}, found {type(row).__name__}"
        )
    lists: dict[str, Any] = {}
    for name in ("choices", "references"):
        texts = None if name in columns.used else list_of_texts(row, name)
        if texts is not None:
            lists[name] = texts
    fields = {name: value for name, value in row.items() if name not in lists}
    example = replace(row_example("", fields, columns, answered=answered, ids=ids), **lists)
    return valid(example, answered, columns.output) if lists else example
