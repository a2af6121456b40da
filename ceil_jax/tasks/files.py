"""Local files and data frames to rows, each knowing the line it stood on, and rows to examples."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.formats import csv_rows, json_rows, parquet_rows
from ceil_jax.tasks.spec import FieldError, Row, RowError

log = logging.getLogger(__name__)

_READERS = {
    **dict.fromkeys((".jsonl", ".json", ".ndjson"), json_rows),
    **dict.fromkeys((".csv", ".tsv", ".txt"), csv_rows),
    ".parquet": parquet_rows,
}
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".csv", ".csv.gz", ".parquet")
"""The endings of a split's file in a folder of data sets."""

Table = str | os.PathLike[str] | Any
"""A path, or a pandas or polars data frame."""


@dataclass(frozen=True)
class Split:
    """Rows, and where each of them came from."""

    source: str
    """A file, or a hub repository at a revision."""
    rows: Sequence[Row | RowError]
    """Each row, or what is wrong with it."""
    lines: Sequence[int]
    """For each row: its line in a text file, its number (from 1) elsewhere."""
    unit: str = "line"
    """The unit that `lines` counts: line or row."""

    def where(self, position: int) -> str:
        """Return `FILE, line N` of a row, for a message."""
        return f"{self.source}, {self.unit} {self.lines[position]}"

    def columns(self) -> dict[str, None]:
        """Return the names of all columns, in the order in which they come up."""
        return dict.fromkeys(name for row in self.rows if not isinstance(row, RowError) for name in row)


def read_table(table: Table, delimiter: str | None = None) -> Split:
    """Return the rows of a file, or of a pandas or polars data frame.

    Args:
        table: see `read_split`; or a data frame.
        delimiter: see `read_split`.

    Raises:
        UserError: see `read_split`; or two columns of a frame have one name.
    """
    if isinstance(table, str | os.PathLike):
        return read_split(Path(table).expanduser(), delimiter)
    if not hasattr(table, "columns") or not (hasattr(table, "to_dicts") or hasattr(table, "to_dict")):
        raise UserError(f"expected a file, or a pandas or polars data frame, found {type(table).__name__}")
    names = [str(name) for name in table.columns]
    if len({*names}) < len(names):
        raise UserError(f"data frame: two columns have one name: {', '.join(map(repr, names))}")
    rows = table.to_dicts() if hasattr(table, "to_dicts") else table.to_dict("records")
    found = [{str(name): value for name, value in row.items()} for row in rows]
    return Split("data frame", found, range(1, len(found) + 1), "row")


def read_split(path: Path, delimiter: str | None = None) -> Split:
    """Return the rows of one file, by its ending in any case.

    Args:
        path: a file of JSON, JSON lines, separated values (.csv, .tsv, .txt) or parquet.
        delimiter: what separates values; by default a tab in .tsv, else a comma. A .txt file must be told.

    Raises:
        UserError: there is no such file, its ending is unknown, it holds no rows or more than the limits allow, or it
            cannot be read.
    """
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    if path.is_dir():
        raise UserError(f"{path} is a folder: name one file, ending in {', '.join(_READERS)}")
    if kind not in _READERS:
        raise UserError(
            f"cannot read {path}: expected a file ending in {', '.join(_READERS)}, or .gz after it"
        )
    if not path.is_file():
        raise UserError(f"no file {path}")
    if kind == ".txt" and delimiter is None:
        raise UserError(
            f"{path}: say what separates its values, as in --delimiter ';' (delimiter=';' in Python)"
        )
    if delimiter is not None and len(delimiter) != 1:
        raise UserError(f"delimiter {delimiter!r}: expected one character, such as ';' or a tab")
    try:
        numbered = list(_READERS[kind](path, delimiter))
    except MemoryError:
        raise UserError(f"cannot read {path}: its rows do not fit into memory") from None
    if not numbered:
        raise UserError(f"{path} holds no rows")
    lines = [line for line, _ in numbered]
    unit = (
        "row" if kind == ".parquet" or (kind == ".json" and lines == [*range(1, len(lines) + 1)]) else "line"
    )
    return Split(str(path), [row for _, row in numbered], lines, unit)


def find_split(folder: Path, *names: str) -> tuple[Path, bool] | None:
    """Return (file, whether it is the whole split) for the first name that has a file; None if none has.

    Args:
        folder: where to look.
        names: what the file may be called, without suffix. A part of a split has an addition to its name, as in
            `train_sample.jsonl`, and is taken where no whole split is found.
    """
    for name in names:
        for suffix in SUFFIXES:
            if (folder / f"{name}{suffix}").is_file():
                return folder / f"{name}{suffix}", True
    for name in names:
        partial = [p for suffix in SUFFIXES for p in sorted(folder.glob(f"{name}_*{suffix}")) if p.is_file()]
        if partial:
            return partial[0], False
    return None


def read_examples(
    split: Split,
    name: str,
    columns: Sequence[str],
    example: Callable[[str, Row], Example],
    keep: Callable[[Row], bool] | None = None,
    enrich: Callable[[Row], Row] | None = None,
    *,
    skip_bad_rows: bool | None = None,
    hint: str = "",
) -> list[Example]:
    """Return the example of each row of a split.

    Args:
        split: the rows.
        name: the split's name. An example's id is this name and the row's place, also counting rows not kept.
        columns: what every row must have.
        example: (id, row) -> example; it raises RowError for a row that it cannot read.
        keep: which rows are wanted; all by default.
        enrich: adds to a row what other files hold; nothing by default.
        skip_bad_rows: leave out rows that cannot be read, and list them in a warning. False refuses them, and says
            that this may be said; None (default) refuses them without a word of it.
        hint: a sentence that ends the message about a missing column; none by default.

    Raises:
        UserError: no row has a column, or rows cannot be read; the message names the file, the lines and the field.
    """
    there = split.columns() if columns else {}
    if there and (missing := [column for column in columns if column not in there]):
        raise UserError(
            f"{split.source}: no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, there))}"
            f"{f'; {hint}' if hint else ''}"
        )
    examples: list[Example] = []
    bad: list[tuple[int, RowError]] = []
    for position, row in enumerate(split.rows):
        try:
            if isinstance(row, RowError):
                raise row
            if missing := [column for column in columns if column not in row]:
                raise RowError(
                    f"no field {', '.join(map(repr, missing))}; it has {', '.join(map(repr, row))}"
                )
            if keep is None or keep(row):
                examples.append(example(f"{name}-{position}", enrich(row) if enrich else row))
        except RowError as error:
            bad.append((position, error))
    if bad and skip_bad_rows and examples:
        log.warning("%s: %s left out; %s", split.source, _count(len(bad), "bad row"), _listed(split, bad))
    elif bad:
        position, first = bad[0]
        said = f"{split.where(position)}{', ' if isinstance(first, FieldError) else ': '}{first}"
        if len(bad) > 1:
            said += f"; {len(bad):,} rows cannot be used: {_lines(split, [at for at, _ in bad], 20)}"
        way = "; --skip-bad-rows (skip_bad_rows=True) leaves such rows out and lists them"
        raise UserError(said + way * (skip_bad_rows is not None))
    return examples


def _listed(split: Split, bad: Sequence[tuple[int, RowError]]) -> str:
    """All bad rows by their lines, those with one problem together."""
    by_problem: dict[str, list[int]] = {}
    for position, error in bad:
        by_problem.setdefault(getattr(error, "problem", str(error)), []).append(position)
    return "; ".join(f"{problem}: {_lines(split, places)}" for problem, places in by_problem.items())


def _lines(split: Split, positions: Sequence[int], most: int | None = None) -> str:
    shown = ", ".join(str(split.lines[position]) for position in positions[:most])
    more = "" if most is None or len(positions) <= most else f" and {len(positions) - most:,} more"
    return f"{split.unit}{'s' * (len(positions) > 1)} {shown}{more}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number > 1)}"
