"""Conversion of table rows to examples.

The columns that are used are checked, and others are kept if they hold text.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ceil_jax.errors import UserError
from ceil_jax.tasks.cells import as_text, missing, plain
from ceil_jax.tasks.checks import check_columns, check_text, missing_names, needed
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.identity import same_text
from ceil_jax.tasks.spec import FieldError, Row, RowError
from ceil_jax.tasks.tables import Table

log = logging.getLogger(__name__)


def examples_of(
    table: Table,
    name: str,
    columns: Sequence[str],
    example: Callable[[str, Row], Example],
    keep: Callable[[Row], bool] | None = None,
    *,
    skip_bad_rows: bool | None = None,
    hint: str = "",
) -> list[Example]:
    """Return the example of each row of a table.

    Args:
        table: the rows, with their numbers.
        name: the split's name. An example's id is this name and the row's position among all rows
            of the table.
        columns: the columns that every row must have.
        example: (id, row) -> example; it raises RowError for a row that it cannot read.
        keep: whether a row is wanted; all are by default.
        skip_bad_rows: whether rows that cannot be read are left out and listed in a warning. If
            False, they are an error that mentions --skip-bad-rows; if None, the default, an error
            that does not.
        hint: a clause at the end of the message about a missing column; none by default.

    Raises:
        UserError: a column is missing, or rows cannot be read; the message names the file, the
            lines and the field.
    """
    good = [row for row in table.rows if not isinstance(row, RowError)]
    if columns and good:
        check_columns(columns, {**dict.fromkeys(table.columns), **good[0]}, table.source, hint)
    examples: list[Example] = []
    bad: list[tuple[str, RowError]] = []
    for position, row in enumerate(table.rows):
        try:
            if isinstance(row, RowError):
                raise row
            if absent := missing_names(columns, row):
                raise RowError(
                    f"no field {', '.join(map(repr, absent))}; it has {', '.join(map(repr, row))}"
                )
            if keep is None or keep(row):
                examples.append(example(f"{name}-{position}", row))
        except RowError as error:
            bad.append((table.place(position), error))
    if not bad:
        return examples
    first, mistake = bad[0]
    between = ", " if isinstance(mistake, FieldError) else ": "
    message = f"{table.source}, {table.unit} {first}{between}{mistake}"
    if len(bad) > 1:
        shown = [place for place, _ in (bad if skip_bad_rows else bad[:20])]
        more = f" and {len(bad) - len(shown):,} more" if len(bad) > len(shown) else ""
        message += f"; {len(bad):,} rows cannot be used: {table.unit}s {', '.join(shown)}{more}"
    if skip_bad_rows and examples:
        log.warning("%s; left out", message)
        return examples
    if skip_bad_rows is not None:
        message += "; --skip-bad-rows (skip_bad_rows=True) leaves such rows out and lists them"
    raise UserError(message)


@dataclass(frozen=True)
class Columns:
    """The columns of a table that are used.

    The values of other columns that were dropped are counted.
    """

    input: tuple[str, ...] = ("input",)
    """The columns of the input; several are joined by a space."""
    output: str = "output"
    named: tuple[str, ...] = ()
    """Further columns that a template or a metric needs."""
    left_out: Counter[str] = field(default_factory=Counter)
    """For each unused column, the number of rows whose value was dropped because it is not a text; `note`
    reports it."""

    def __post_init__(self) -> None:
        if same_text(self.output, self.input) is not None:
            raise UserError(f"{self.output!r} is the input and the output; expected two columns")

    @property
    def used(self) -> tuple[str, ...]:
        """The names of all columns that a row must have."""
        return tuple(dict.fromkeys((*self.input, self.output, *self.named)))

    def note(self, source: str) -> None:
        """Log a warning that names the columns in which values were dropped.

        `source` is the name of the table.
        """
        if self.left_out:
            names = ", ".join(f"{name!r} ({count:,} rows)" for name, count in self.left_out.items())
            what = "values other than text, numbers and dates, or in a column without a name,"
            log.warning("%s: %s were left out: columns %s", source, what, names)


def row_example(
    id: str, row: Row, columns: Columns, *, answered: bool = True, ids: bool = False
) -> Example:
    """Return a row as an example.

    All columns except those of input and output become its `fields`, as text. Texts are kept
    exactly, white space included.

    Numbers, truth values and dates are written as `cells.as_text` does. A missing value (None, NaN,
    an empty cell) gives no field.

    Args:
        id: the example's id.
        row: the cells by column. Column names are compared by `question_key`.
        columns: which columns have a role.
        answered: whether the output is required; a query need not have one.
        ids: whether a value in the column `id` replaces the argument `id`.

    Raises:
        FieldError: a used column is missing, empty, not a text or number, or cannot be written as
            text.
    """
    inputs = [same_text(name, row) or name for name in columns.input]
    answer = same_text(columns.output, row) or columns.output
    field_columns = {same_text(name, row) or name for name in columns.named}
    parts = tuple(needed(name, row.get(name)) for name in inputs)
    has_output = answered or not missing(row.get(answer))
    output = needed(answer, row.get(answer)) if has_output else ""
    if ids and "id" not in {*inputs, answer, *field_columns}:
        id = check_text("id", as_text(row.get("id")) or id)
        row = {name: value for name, value in row.items() if name != "id"}
    fields = {}
    for name, value in row.items():
        if name in field_columns:
            fields[name] = needed(name, value, blank=True)
            continue
        if name in (*inputs, answer) or missing(value) or as_text(value) == "":
            continue
        try:
            # the name of a column must be a text too
            fields[needed("", name)] = needed("", value, blank=True)
        except FieldError:
            columns.left_out[name] += 1
    return Example(
        id, " ".join(parts), output, fields=fields, parts=parts if len(parts) > 1 else ()
    )


def list_of_texts(row: Row, name: str) -> tuple[str, ...] | None:
    """Return the texts of a field that is a list or an array; None for any other field.

    Its elements are texts or numbers, checked by `check_text`.
    """
    values = plain(row.get(name))
    if not isinstance(values, list | tuple):
        return None
    texts = [as_text(value) for value in values]
    return (
        None
        if None in texts
        else tuple(check_text(name, text) for text in texts if text is not None)
    )


def ids_of_rows(table: Table) -> bool:
    """Return whether a table has a column `id` whose values do not repeat.

    Log a warning if they do.
    """
    ids = Counter(as_text(row.get("id")) for row in table.rows if not isinstance(row, RowError))
    repeated = [id for id, count in ids.items() if id and count > 1]
    if repeated:
        log.warning(
            "%s: column 'id' repeats (%r %d times; %d such): it is metadata, and examples get ids "
            "of their own",
            table.source,
            repeated[0],
            ids[repeated[0]],
            len(repeated),
        )
    return not repeated and any(ids)
