"""Users' rows, files and data frames → `Example`s, by the rules of `tasks.rows`; ids, choices and
references too."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.files import TableLike, numbered_rows, read_table
from ceil_jax.tasks.rows import (
    Columns,
    as_text,
    check_text,
    examples_of,
    list_of_texts,
    missing,
    row_example,
    valid,
)
from ceil_jax.tasks.spec import RowError

log = logging.getLogger(__name__)

ExampleLike = Example | Mapping[str, Any]
"""An Example, or {"input": …, "output": …}, with id, choices, references and metadata if wanted."""

OWN = ("id", "input", "output", "choices", "references")
"""The names of an example's own fields; what else a row has is metadata."""

_HINT = "say which is meant with input_key=… and output_key=…"


def as_examples(
    rows: Iterable[str | ExampleLike],
    columns: Columns,
    source: str = "examples",
    unit: str = "row",
    *,
    answered: bool = True,
    names: Sequence[Any] | None = None,
) -> list[Example]:
    """Return an Example for each row; its id is empty where the row has none.

    Messages call the rows `source`, and one of them `unit` and its number, or what `names` calls
    it. Queries need not be `answered`, and may also be texts. A row that is no example is a
    UserError that names its place and field.
    """
    if isinstance(rows, (str, Mapping, Example)):
        raise UserError(f"{source}: expected a list of {source}, found one; put it into a list")
    if hasattr(rows, "columns"):
        raise UserError(
            f"{source}: expected a list of {source}, found a data frame; give "
            "frame.to_dict('records')"
        )
    given: list[Any] = list(rows)
    plain = all(isinstance(row, Mapping) for row in given)
    needed = (*columns.input, columns.output)[: 1 + answered] if plain else ()
    read = partial(_example, columns=columns, answered=answered)
    table = numbered_rows(source, given, unit)
    found = examples_of(replace(table, lines=names or table.lines), "", needed, read, hint=_HINT)
    if answered:
        columns.note(source)
    return found


def table_examples(
    table: TableLike, columns: Columns, delimiter: str | None = None, *, skip_bad_rows: bool = False
) -> list[Example]:
    """Return an Example for each row of a file or data frame, which `read_table` reads.

    A column `id` without repetitions gives the ids, and columns `choices` and `references` with
    lists of texts give those; any other column of these names is metadata like the rest.
    `skip_bad_rows` is as in `examples_of`. A table that cannot be read, or a row that is no
    example, is a UserError.
    """
    split = read_table(table, delimiter)
    ids = Counter(as_text(row.get("id")) for row in split.rows if not isinstance(row, RowError))
    repeated = [id for id, count in ids.items() if id and count > 1]
    if repeated:
        log.warning(
            "%s: column 'id' repeats (%r %d times; %d such): it is metadata, and examples get ids "
            "of their own",
            *(split.source, repeated[0], ids[repeated[0]], len(repeated)),
        )
    read = partial(_example, columns=columns, ids=not repeated)
    found = examples_of(split, "", columns.used, read, skip_bad_rows=skip_bad_rows, hint=_HINT)
    columns.note(split.source)
    return found


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
    ids = ids and "id" not in columns.used
    own: dict[str, Any] = {
        name: several
        for name in ("choices", "references")
        if name not in columns.used and (several := list_of_texts(row, name)) is not None
    }
    id = check_text("id", "" if not ids or missing(row.get("id")) else str(row["id"]))
    rest = {
        name: value for name, value in row.items() if name not in own and not (ids and name == "id")
    }
    example = replace(row_example(id, rest, columns, answered=answered), **own)
    return valid(example, answered, columns.output) if own else example
