"""Rows of a table with their line numbers, and the error of a table that cannot be read.

What parses a table knows its content alone. Its name, which messages begin with, is added where the
table is read: `TableRows.named`, `TableError.naming`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.tasks.cells import whole_numbers
from ceil_jax.tasks.identity import look_alikes
from ceil_jax.tasks.spec import Row, RowError

log = logging.getLogger(__name__)


FILE = "\0"
"""Stands for the name of a table in the message of a `TableError`."""


class TableError(Exception):
    """A table that cannot be read. What parses a table does not know its name: `FILE` stands for it
    in the message until `naming` writes it."""

    def naming(self, source: str) -> UserError:
        """Return the error for the user, which names the table."""
        return UserError(str(self).replace(FILE, source))


class Remark(NamedTuple):
    """Something that was noticed when a table was parsed, to be logged behind the table's name."""

    text: str
    level: int = logging.WARNING


@dataclass(frozen=True)
class TableRows:
    """The rows of a file, a data frame or a split, with their line numbers."""

    rows: Sequence[Row | RowError]
    """Each row, or the error that makes it unusable."""
    lines: Sequence[int]
    """For each row its line in a text file, or its number from 1 elsewhere."""
    unit: str = "line"
    """The unit that `lines` counts: line or row."""
    source: str = ""
    """The name in messages: a file, or a hub repository at a revision. What parses a table does not
    know it."""
    remarks: tuple[Remark, ...] = ()
    """What is logged once the table has its name."""

    def columns(self) -> dict[str, None]:
        """Return the names of all columns, in order of appearance."""
        return dict.fromkeys(
            name for row in self.rows if not isinstance(row, RowError) for name in row
        )

    def with_whole_numbers(self) -> TableRows:
        """Return the table with columns of whole numbers turned back into integers where missing
        cells made them floats; a remark names the columns that lost digits (see
        `whole_numbers`)."""
        rows, lost = whole_numbers(self.rows)
        if not lost:
            return replace(self, rows=rows)
        remark = Remark(
            f"columns {', '.join(map(repr, lost))} hold whole numbers of 16 digits and more as "
            "floats, because cells are missing: their last digits are lost; read such columns as "
            "texts"
        )
        return replace(self, rows=rows, remarks=(*self.remarks, remark))

    def named(self, source: str) -> TableRows:
        """Return the table with its name, and log its remarks."""
        for text, level in self.remarks:
            log.log(level, "%s: %s", source, text)
        return replace(self, source=source, remarks=())


def numbered_rows(
    rows: Sequence[Row | RowError],
    source: str = "",
    unit: str = "row",
    remarks: tuple[Remark, ...] = (),
) -> TableRows:
    """Return rows that do not come from a text file, numbered from 1. For the other arguments see
    `TableRows`."""
    return TableRows(rows, range(1, len(rows) + 1), unit, source, remarks)


def check_names(names: Sequence[str], where: str = FILE) -> None:
    """Raise a TableError if two columns have the same name, compared by `question_key`. Columns
    without a name are ignored.

    Args:
        names: the names of all columns.
        where: the place of the names in the message; by default the table.
    """
    not_blank = [name for name in names if name.strip()]
    if len({*not_blank}) < len(not_blank) or look_alikes(not_blank):
        listed = ", ".join(map(ascii if look_alikes(not_blank) else repr, names))
        raise TableError(f"{where}: two columns have one name: {listed}")
