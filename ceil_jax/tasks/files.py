"""Local files and data frames to rows, each with the line it stood on."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.spec import Row, RowError

log = logging.getLogger(__name__)

ENDINGS = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".txt", ".parquet")

TableLike = str | os.PathLike[str] | Any
"""A path, or a pandas or polars data frame."""


@dataclass(frozen=True)
class TableRows:
    """The rows of a file, a data frame or a split, and where each of them came from."""

    source: str
    """A file, or a hub repository at a revision."""
    rows: Sequence[Row | RowError]
    """Each row, or what is wrong with it."""
    lines: Sequence[int]
    """For each row: its line in a text file, its number (from 1) elsewhere."""
    unit: str = "line"
    """The unit that `lines` counts: line or row."""

    def columns(self) -> dict[str, None]:
        """Return the names of all columns, in the order in which they come up."""
        return dict.fromkeys(
            name for row in self.rows if not isinstance(row, RowError) for name in row
        )


def numbered_rows(source: str, rows: Sequence[Row | RowError], unit: str = "row") -> TableRows:
    """Return rows that stand in no text file, counted from 1."""
    return TableRows(source, rows, range(1, len(rows) + 1), unit)


def read_table(table: TableLike, delimiter: str | None = None) -> TableRows:
    """Return the rows of a file, by its ending in any case, or of a pandas or polars data frame.

    Args:
        table: a file of JSON, JSON lines, separated values (.csv, .tsv, .txt) or parquet; or a data
            frame.
        delimiter: what separates values; by default a tab in .tsv, else a comma. A .txt file must
            be told.

    Raises:
        UserError: there is no such file, its ending is unknown, it holds no rows, or it cannot be
            read; two columns have one name.
    """
    if not isinstance(table, str | os.PathLike):
        return _not_empty(_frame_rows(table))
    path = Path(table).expanduser()
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    if kind not in ENDINGS or path.is_dir():
        raise UserError(
            f"cannot read {path}: name one file that ends in {', '.join(ENDINGS)}, or .gz after it"
        )
    if not path.is_file():
        raise UserError(f"no file {path}")
    if kind == ".txt" and delimiter is None:
        raise UserError(
            f"{path}: say what separates its values, as in --delimiter ';' (delimiter=';' in "
            "Python)"
        )
    if delimiter is not None and len(delimiter) != 1:
        raise UserError(f"delimiter {delimiter!r}: expected one character, such as ';' or a tab")
    if kind == ".parquet":
        found = numbered_rows(str(path), _parquet_rows(path))
    elif kind in (".csv", ".tsv", ".txt"):
        found = _separated_rows(path, delimiter or ("\t" if kind == ".tsv" else ","))
    else:
        found = _json_rows(path)
    return _not_empty(found)


def _not_empty(found: TableRows) -> TableRows:
    if not found.rows:
        raise UserError(f"{found.source} holds no rows")
    return found


def _frame_rows(table: Any) -> TableRows:
    if not hasattr(table, "columns") or not (
        hasattr(table, "to_dicts") or hasattr(table, "to_dict")
    ):
        raise UserError(
            f"expected a file, or a pandas or polars data frame, found {type(table).__name__}"
        )
    names = [str(name) for name in table.columns]
    if len({*names}) < len(names):
        raise UserError(f"data frame: two columns have one name: {', '.join(map(repr, names))}")
    rows = table.to_dicts() if hasattr(table, "to_dicts") else table.to_dict("records")
    return numbered_rows(
        "data frame", [{str(name): value for name, value in row.items()} for row in rows]
    )


def _lines(path: Path) -> list[str]:
    """The lines of a text file, unpacked where its name ends in .gz, without a byte order mark."""
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            content = stream.read()
        text = content.decode("utf-8-sig")
        return [line.rstrip("\r") for line in text.split("\n" if "\n" in text else "\r")]
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}, line {line}: not UTF-8 (byte {error.object[error.start]:#04x}); convert the "
            "file, for example with iconv"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from None


def _json_rows(path: Path) -> TableRows:
    """The objects of a JSON list, else one a line. The content decides: pandas writes JSON lines as
    .json."""
    lines = _lines(path)
    content = "\n".join(lines)
    if content.lstrip().startswith("["):
        rows = _object(content, list)
        if isinstance(rows, RowError):
            raise UserError(f"{path}: {rows}")
        return numbered_rows(
            str(path), [row if isinstance(row, dict) else _not_a_row(row) for row in rows]
        )
    numbered = [
        (number, _object(line, dict)) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if (
        numbered
        and isinstance(numbered[0][1], RowError)
        and isinstance(one := _object(content, dict), dict)
    ):
        held = (
            ", ".join(repr(name) for name, value in one.items() if isinstance(value, list))
            or "none"
        )
        raise UserError(
            f"{path} is one object, expected a list of rows or one a line; keys with lists: {held}"
        )
    return TableRows(str(path), [row for _, row in numbered], [number for number, _ in numbered])


def _object(text: str, expected: type) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=_mapping)
    except (ValueError, RecursionError) as error:
        return RowError(f"not JSON ({error}): {text.strip()[:60]!r}")
    return value if isinstance(value, expected) else _not_a_row(value)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a name stands twice among {', '.join(name for name, _ in pairs)}")
    return found


def _not_a_row(value: Any) -> RowError:
    return RowError(f"expected an object of columns, found {type(value).__name__}")


def _separated_rows(path: Path, delimiter: str) -> TableRows:
    """The rows of a table with a header; a row's line is its first one.

    Quotes are characters like any other where they do not pair up as CSV has them, and every line
    by itself has as many cells as the header; a warning says so.
    """
    lines = _lines(path)
    if told := re.fullmatch("sep=(.)", lines[0]):  # as Excel writes it
        delimiter, lines[0] = told[1], ""
    plain = [(number, line.split(delimiter)) for number, line in enumerate(lines, 1) if line]
    plain_fits = all(len(cells) == len(plain[0][1]) for _, cells in plain)
    csv.field_size_limit(2**31 - 1)  # 131,072 characters by default
    rows: list[tuple[int, list[str]]] = []
    content = io.StringIO("\n".join(lines), newline="")
    reader = csv.reader(content, strict=True, delimiter=delimiter, skipinitialspace=True)
    start = 1
    try:
        for cells in reader:
            if cells:
                rows.append((start, cells))
            start = reader.line_num + 1
        unpaired = any(len(cells) != len(rows[0][1]) for _, cells in rows) or (
            delimiter == "\t"
            and len(rows) < len(plain)  # a quote that closes lines later swallowed them
        )
    except csv.Error as error:
        unpaired = True
        if not plain_fits:
            raise UserError(
                f"{path}, line {start}: a quote that begins or ends in this row has no partner "
                f"({error}); double it"
            ) from None
    if unpaired and plain_fits:
        log.warning("%s: quotes do not pair up; they are read as characters like any other", path)
        rows = plain
    if not rows:
        return TableRows(str(path), [], [])
    (line, written), *rest = rows
    header = [name.strip() for name in written]
    _check_header(f"{path}, line {line}", header)
    found: list[Row | RowError] = [
        RowError("the header once more")
        if cells == written
        else dict(zip(header, cells, strict=True))
        if len(cells) == len(header)
        else RowError(f"{len(cells)} cells, the header has {len(header)}")
        for _, cells in rest
    ]
    return TableRows(str(path), found, [line for line, _ in rest])


def _check_header(where: str, header: list[str]) -> None:
    named = [name for name in header if name]
    if len({*named}) < len(named):
        raise UserError(f"{where}: two columns have one name: {', '.join(map(repr, header))}")
    for other in ";\t|,":
        if len(header) == 1 and other in header[0]:
            raise UserError(
                f"{where}: the header is one column, {header[0]!r:.80}; if {other!r} separates "
                f"values, say so: --delimiter {other!r} (delimiter={other!r} in Python)"
            )


def _parquet_rows(path: Path) -> list[Row]:
    """The rows of a parquet file, with the names of its ClassLabels, as `datasets` writes them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    _check_header(str(path), table.column_names)
    written = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    features = written.get("info", {}).get("features", {})
    columns: dict[str, list[Any]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = features.get(name)
        while isinstance(kind, list | dict) and (
            inner := kind[0] if isinstance(kind, list) else kind.get("feature")
        ):
            kind = inner
        names = (
            kind.get("names")
            if isinstance(kind, dict) and kind.get("_type") == "ClassLabel"
            else None
        )
        try:
            columns[name] = [_named(value, names) for value in column.to_pylist()]
        except (pa.ArrowException, ValueError, OverflowError, LookupError) as error:
            # a date that Python does not have: no text, so that the column is left out if nobody
            # needs it
            columns[name] = [(str(error),)] * len(column)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _named(value: Any, names: Sequence[str] | None) -> Any:
    """The name of a label's number, and those of a list of numbers; −1 stands for no label."""
    if names is None or not isinstance(value, int | list):
        return value
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    return names[value] if 0 <= value < len(names) else None
