"""The one reader of tables: turns a file or a table in memory into rows, each with its line number.

The steps, in order: recognise a file by its first bytes and unpack it (`tables.unpacking`), decode
bytes to text (`tables.decoding`), and parse text into rows (`tables.json_rows`,
`tables.separated`), or parquet and Arrow into rows (`tables.columnar`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ceil_jax.errors import UserError
from ceil_jax.store.places import user_path
from ceil_jax.tasks.tables import magic
from ceil_jax.tasks.tables.columnar import columnar_rows
from ceil_jax.tasks.tables.decoding import decoded
from ceil_jax.tasks.tables.frames import frame_rows
from ceil_jax.tasks.tables.json_rows import is_json, json_rows, row_of
from ceil_jax.tasks.tables.separated import separated_rows
from ceil_jax.tasks.tables.table_rows import FILE, TableError, TableRows, numbered_rows
from ceil_jax.tasks.tables.unpacking import unpacked

ENDINGS = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".txt", ".parquet", ".arrow")

USUAL_SEPARATOR = {".csv": ",", ".tsv": "\t", ".txt": ""}
"""The usual separator of values for each file ending; the content may show another."""

TableLike = str | os.PathLike[str] | Any
"""A path, a list of rows (mappings of columns to values), or another table in memory: see
`tables.frames.frame_rows`."""

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.IGNORECASE)
"""The beginning of a URL. `Path` folds its slashes into one."""


def read_table(table: TableLike, delimiter: str | None = None) -> TableRows:
    """Return the rows of a file (`read_file`) or of a table in memory.

    Args:
        table: a file, or a table in memory.
        delimiter: the character between the values of a file.

    Raises:
        UserError: the value is no table; it holds no rows or cannot be read; there are several
            tables, or two columns of one name.
    """
    if isinstance(table, str | os.PathLike):
        return read_file(table, delimiter)
    _check_delimiter(delimiter)
    if isinstance(table, list | tuple):
        rows: TableRows | None = numbered_rows([row_of(item) for item in table], "list of rows")
    else:
        rows = frame_rows(table)
    if rows is None:
        raise UserError(
            "expected a file, a data frame, an Arrow table, a data set or a list of rows, found "
            f"{type(table).__name__}"
        )
    if not rows.rows:
        raise UserError(f"{rows.source} holds no rows")
    return rows.with_whole_numbers().named(rows.source)


def read_file(path: str | os.PathLike[str], delimiter: str | None = None) -> TableRows:
    """Return the rows of a file.

    Args:
        path: a file of JSON, JSON lines, separated values, parquet or Arrow, also packed. Its first
            bytes show whether it is packed, parquet or Arrow. A text file needs a known ending;
            whether it is JSON is decided by its content.
        delimiter: the character between values; by default found from the content.

    Raises:
        UserError: the file does not exist, has an unknown ending, holds no rows or cannot be read;
            the name is a URL; there are two columns of one name.
    """
    _check_delimiter(delimiter)
    file = existing_file(path)
    try:
        rows = _parsed(file, delimiter).with_whole_numbers()
    except TableError as error:
        raise error.naming(str(file)) from None
    if not rows.rows:
        raise UserError(f"{file} holds no rows")
    return rows.named(str(file))


def _check_delimiter(delimiter: str | None) -> None:
    if delimiter is not None and len(delimiter) != 1:
        raise UserError(f"delimiter {delimiter!r}: expected one character, such as ';' or a tab")


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file of this machine, from a path or a file:// address.

    Raises:
        UserError: there is no such file, or it is a folder or an address elsewhere.
    """
    name = os.fspath(path)
    if len(name.splitlines()) > 1:
        raise UserError(f"expected a file, found a text of several lines, {name[:60]!r}")
    if address := _ADDRESS.match(name):
        scheme = address[1].lower()
        if scheme != "file":
            rest = name[address.end() :]
            raise UserError(
                f"{scheme}://{rest} is an address; expected a file of this machine: download it "
                "first"
            )
        name = url2pathname(urlsplit(name).path)
    file = user_path(name)
    if file.is_dir():
        raise UserError(f"cannot read {file}, a folder: {_expected()}")
    if not file.is_file():
        raise UserError(f"no file {file}")
    return file


def _expected() -> str:
    return f"name one file that ends in {', '.join(ENDINGS)}, or .gz after it"


def _parsed(file: Path, delimiter: str | None) -> TableRows:
    """The rows of a file, which do not know its name. A TableError if it cannot be read."""
    content, kind, name = unpacked(file)
    if kind != magic.TEXT:
        return columnar_rows(content, kind)
    ending = PurePosixPath(name.lower()).suffix
    if ending not in ENDINGS:
        raise TableError(f"cannot read {FILE}: {_expected()}")
    text = decoded(content, file.name)
    if ending in (".parquet", ".arrow"):
        beginning = f"{text[:60]!r}" if text else "empty"
        raise TableError(f"{FILE} is no {ending[1:]} file: its content is {beginning}")
    if ending not in USUAL_SEPARATOR or (delimiter is None and is_json(text)):
        return json_rows(text)
    return separated_rows(text, USUAL_SEPARATOR.get(ending, ""), delimiter)
