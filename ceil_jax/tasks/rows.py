"""Rows to examples: columns that are used are checked, and the others are kept where they are
text."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.cells import as_text, missing, nests, only_item, plain, texts_of
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.identity import same_text
from ceil_jax.tasks.spec import NOT_EMPTY, FieldError, Row, RowError, text
from ceil_jax.tasks.tables.table_rows import TableRows

log = logging.getLogger(__name__)


def examples_of(
    table: TableRows,
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
        table: the rows, with their line numbers.
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
    available = table.columns() if columns else {}
    if available and (absent := _absent(columns, available)):
        raise UserError(
            f"{table.source}: no column {', '.join(map(repr, absent))}; it has "
            f"{', '.join(map(repr, available))}" + nested(table) + (f"; {hint}" if hint else "")
        )
    examples: list[Example] = []
    bad: list[tuple[int, RowError]] = []
    for position, row in enumerate(table.rows):
        try:
            if isinstance(row, RowError):
                raise row
            if absent := _absent(columns, row):
                raise RowError(
                    f"no field {', '.join(map(repr, absent))}; it has {', '.join(map(repr, row))}"
                )
            if keep is None or keep(row):
                examples.append(example(f"{name}-{position}", row))
        except RowError as error:
            bad.append((position, error))
    if not bad:
        return examples
    _, mistake = bad[0]
    lines = [str(table.lines[position]) for position, _ in bad]
    between = ", " if isinstance(mistake, FieldError) else ": "
    message = f"{table.source}, {table.unit} {lines[0]}{between}{mistake}"
    if len(bad) > 1:
        named_lines = lines if skip_bad_rows else lines[:20]
        more = (
            f" and {len(lines) - len(named_lines):,} more" if len(lines) > len(named_lines) else ""
        )
        message += (
            f"; {len(bad):,} rows cannot be used: {table.unit}s {', '.join(named_lines)}{more}"
        )
    if skip_bad_rows and examples:
        log.warning("%s; left out", message)
        return examples
    if skip_bad_rows is not None:
        message += "; --skip-bad-rows (skip_bad_rows=True) leaves such rows out and lists them"
    raise UserError(message)


def _absent(columns: Sequence[str], names: Collection[str]) -> list[str]:
    """The columns that are not among `names`, compared by `question_key`."""
    return [column for column in columns if same_text(column, names) is None]


def nested(table: TableRows) -> str:
    """Return a clause for messages that names the columns with objects or lists in the first row,
    and says what to do; "" if there are none."""
    row = next((row for row in table.rows if not isinstance(row, RowError)), {})
    names = [repr(name) for name, value in row.items() if nests(value)]
    if not names:
        return ""
    way = "write what is in them as columns; Label Studio does as JSON-MIN or CSV"
    if not {"messages", "conversations"}.isdisjoint(row):
        way = (
            "a bank of conversations is made by conversation_examples of "
            "ceil_jax.selector.adapters.conversations"
        )
    return f" (in {', '.join(names)} stand objects or lists: {way})"


@dataclass(frozen=True)
class Columns:
    """The columns of a table that are used, and a count of the values of other columns that were
    dropped."""

    input: tuple[str, ...] = ("input",)
    """The columns of the input; several are joined by a space."""
    output: str = "output"
    named: tuple[str, ...] = ()
    """Further columns that a template or a metric needs."""
    left_out: Counter[str] = field(default_factory=Counter)
    """For each unused column, in how many rows its value was dropped because it is not a text; `note`
    reports it."""

    def __post_init__(self) -> None:
        if same_text(self.output, self.input) is not None:
            raise UserError(f"{self.output!r} is the input and the output; expected two columns")

    @property
    def used(self) -> tuple[str, ...]:
        """The names of all columns that a row must have."""
        return tuple(dict.fromkeys((*self.input, self.output, *self.named)))

    def note(self, source: str) -> None:
        """Log a warning that names the columns of the table `source` in which values were
        dropped."""
        if self.left_out:
            names = ", ".join(f"{name!r} ({count:,} rows)" for name, count in self.left_out.items())
            what = "values that are no text, number or date, or whose column has no name,"
            log.warning("%s: %s were left out: columns %s", source, what, names)


def row_example(
    id: str, row: Row, columns: Columns, *, answered: bool = True, ids: bool = False
) -> Example:
    """Return a row as an example. All columns except those of input and output become its `fields`,
    as text. Texts are kept exactly, white space included.

    Numbers, truth values and dates are written as Python writes them. A missing value (None, NaN,
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
    parts = tuple(_needed(row, name) for name in inputs)
    has_output = not missing(only_item(row.get(answer)))
    output = _needed(row, answer) if answered or has_output else ""
    if ids and "id" not in {*inputs, answer, *field_columns}:
        id = check_text("id", as_text(row.get("id")) or id)
        row = {name: value for name, value in row.items() if name != "id"}
    fields = {}
    for name, value in row.items():
        if name in field_columns:
            fields[name] = _needed(row, name, blank=True)
            continue
        if name in (*inputs, answer) or missing(value) or as_text(value) == "":
            continue
        # the name of a column must be a text too
        carried = _carried(value) if name and _carried(name) == name else None
        if carried is None:
            columns.left_out[name] += 1
        else:
            fields[name] = carried
    return Example(
        id, " ".join(parts), output, fields=fields, parts=parts if len(parts) > 1 else ()
    )


def valid(example: Example, answered: bool = True, output: str = "output") -> Example:
    """Return an example that a user has made, after checking that all of its texts can be written
    and read back.

    Raises:
        FieldError: a field is not such a text; the input is empty; or, if `answered`, the output is
            empty or not one of the choices. The message calls the output `output`.
    """
    single = {"id": example.id, "input": example.input, "output": example.output}
    texts = list(single.items())
    for name in ("choices", "references", "parts"):
        texts += [(name, value) for value in getattr(example, name)]
    texts += example.fields.items()
    for name, value in texts:
        if not isinstance(value, str):
            raise FieldError(name, "a text", value)
        check_text(name, value)
    # `text` refuses an empty one
    text(single, "input")
    if answered:
        text(single, "output")
    if not (answered and example.choices):
        return example
    return replace(example, output=choice_of(example.output, example.choices, output))


def choice_of(answer: str, choices: Sequence[str], name: str = "output", source: str = "") -> str:
    """Return the choice that is the same text as an answer by `question_key`, in the spelling of
    the choices.

    Args:
        answer: the text of the answer.
        choices: the choices.
        name: the field's name in messages.
        source: where the choices come from, for messages.

    Raises:
        FieldError: the answer is not among the choices.
    """
    choice = same_text(answer, choices)
    if choice is None:
        raise FieldError(name, f"one of the choices {', '.join(choices)}{source}", answer)
    return choice


def list_of_texts(row: Row, name: str) -> tuple[str, ...] | None:
    """Return the texts of a field that is a list or an array of texts or numbers, checked by
    `check_text`; None for any other field."""
    texts = texts_of(row.get(name))
    return None if texts is None else tuple(check_text(name, text) for text in texts)


def ids_of_rows(table: TableRows) -> bool:
    """Return whether a table has a column `id` whose values do not repeat. Log a warning if they
    do.
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


def check_text(name: str, text: str) -> str:
    """Return a text unchanged. A FieldError if it is longer than `CEIL_JAX_MAX_CELL` (by default
    200,000 characters), or contains half a character (a lone surrogate), as from a cut inside an
    emoji."""
    most = os.environ.get("CEIL_JAX_MAX_CELL", "200000")
    if not most.isdigit():
        raise UserError(f"CEIL_JAX_MAX_CELL is {most!r}: expected a whole number of characters")
    if len(text) > int(most):
        way = "cut it, drop the column, or set CEIL_JAX_MAX_CELL"
        raise FieldError(name, f"at most {int(most):,} characters, not {len(text):,} ({way})", text)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"text without half a character ({text[error.start]!r} at place {error.start})"
        raise FieldError(name, half, text) from None
    return text


def _needed(row: Row, name: str, *, blank: bool = False) -> str:
    value = plain(row.get(name))
    text = as_text(only_item(value))
    if text is None or not (blank or text.strip()):
        expected = (
            "text or a finite number, which the template or the metric needs"
            if blank
            else NOT_EMPTY
        )
        if isinstance(value, bytes):
            expected += ", not bytes (value.decode() makes a text of them)"
        raise FieldError(name, expected, value)
    return check_text(name, text)


def _carried(value: Any) -> str | None:
    """The text of a value in an unused column; None if it is dropped."""
    try:
        text = as_text(value)
        return None if text is None else check_text("", text)
    except FieldError:
        return None
