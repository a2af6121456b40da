"""Rows of a table with their line numbers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ceil_jax.errors import UserError
from ceil_jax.tasks.cells import whole_numbers
from ceil_jax.tasks.identity import look_alikes
from ceil_jax.tasks.spec import Row, RowError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableRows:
    """The rows of a file, a data frame or a split, with their line numbers."""

    source: str
    """A file, or a hub repository at a revision."""
    rows: Sequence[Row | RowError]
    """Each row, or the error that makes it unusable."""
    lines: Sequence[int]
    """For each row its line in a text file, or its number from 1 elsewhere."""
    unit: str = "line"
    """The unit that `lines` counts: line or row."""

    def columns(self) -> dict[str, None]:
        """Return the names of all columns, in order of appearance."""
        return dict.fromkeys(
            name for row in self.rows if not isinstance(row, RowError) for name in row
        )

    def with_whole_numbers(self) -> TableRows:
        """Return the table with columns of whole numbers turned back into integers where missing
        cells made them floats; warn of columns that lost digits (see `whole_numbers`)."""
        rows, lost = whole_numbers(self.rows)
        if lost:
            log.warning(
                "%s: columns %s hold whole numbers of 16 digits and more as floats, because cells "
                "are missing: their last digits are lost; read such columns as texts",
                self.source,
                ", ".join(map(repr, lost)),
            )
        return replace(self, rows=rows)


def numbered_rows(source: str, rows: Sequence[Row | RowError], unit: str = "row") -> TableRows:
    """Return rows that do not come from a text file, numbered from 1."""
    return TableRows(source, rows, range(1, len(rows) + 1), unit)


def check_names(source: str, names: Sequence[str]) -> None:
    """Raise a UserError if two columns have the same name, compared by `question_key`. Columns
    without a name are ignored."""
    not_blank = [name for name in names if name.strip()]
    if len({*not_blank}) < len(not_blank) or look_alikes(not_blank):
        listed = ", ".join(map(ascii if look_alikes(not_blank) else repr, names))
        raise UserError(f"{source}: two columns have one name: {listed}")
