"""The formats of data files: JSON lines, JSON, CSV and parquet, each read to rows with the line they stood on.

How much is read has limits: a bomb, or a file that is no data set, ends in one line and not in a full memory.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.spec import FieldError, Row

DATA_MB = ("CEIL_JAX_MAX_DATA_MB", 1_000)
"""A file's content in MB, unpacked: the variable that raises it, and the default."""

CELL = ("CEIL_JAX_MAX_CELL", 200_000)
"""The characters of one field; an LM's context holds a fraction of it."""

LINE_CELLS = 100
"""A line may be as long as so many of the largest fields."""


def _file_bytes(path: Path) -> bytes:
    """Return a file's content, unpacked where its name ends in .gz.

    Raises:
        UserError: it cannot be read, or is larger than the limit.
    """
    most = _limit(DATA_MB) * 1_000_000
    try:
        _check_size(str(path), path.stat().st_size)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            content = stream.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    _check_size(str(path), len(content))
    return content


def jsonl_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield (line, row) of each object of a file of JSON lines; empty lines are skipped."""
    for number, line in _lines(path, limited=True):
        if line.strip():
            yield number, _row(f"{path}, line {number}", _parse(path, number, line))


def json_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield (place, row) of each object of a JSON list; places count from 1."""
    value = _parse(path, 1, "\n".join(line for _, line in _lines(path, limited=False)))
    if not isinstance(value, list):
        raise UserError(f"{path}: expected a JSON list of objects, found {type(value).__name__}")
    for number, row in enumerate(value, 1):
        yield number, _row(f"{path}, row {number}", row)


def csv_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield (line, row) of each row of a CSV file with a header; a row's line is its first one."""
    text = "\n".join(line for _, line in _lines(path, limited=True))
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # 131,072 by default: less than some cells
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    start = 1
    try:
        for cells in reader:
            line, start = start, reader.line_num + 1
            if not cells:
                continue
            if not header:
                header = cells
                if len(set(header)) != len(header):
                    raise UserError(f"{path}, line {line}: two columns have one name: {', '.join(header)}")
            elif len(cells) != len(header):
                raise UserError(f"{path}, line {line}: {len(cells)} cells, the header has {len(header)}")
            else:
                row = dict(zip(header, cells, strict=True))
                _check_cells(f"{path}, line {line}", row)
                yield line, row
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: not CSV ({error})") from None


def parquet_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield (number, row) of each row of a parquet file; numbers count from 1."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
            _check_size(str(path), sum(group.total_byte_size for group in groups))
            number = size = 0
            # few rows at a time: a dictionary of one long text makes a small file of many large rows
            for batch in file.iter_batches(batch_size=64):
                size += batch.nbytes
                _check_size(str(path), size)
                for row in batch.to_pylist():
                    number += 1
                    _check_cells(f"{path}, row {number}", row)
                    yield number, row
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {str(error).splitlines()[0]}") from None


def _lines(path: Path, *, limited: bool) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(_file_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if limited:
            _check_line(f"{path}, line {number}", len(line))
        try:
            yield number, line.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}, line {number}: not UTF-8 (byte {error.object[error.start]:#04x} at column "
                f"{error.start + 1}); convert the file, for example with iconv"
            ) from None


def _parse(path: Path, line: int, content: str) -> object:
    try:
        return json.loads(content)
    except ValueError as error:
        shown = content.strip()
        raise UserError(f"{path}, line {line}: not JSON ({error}): {shown[:60]}") from None
    except RecursionError:
        raise UserError(f"{path}, line {line}: JSON nested too deeply") from None


def _row(where: str, value: object) -> Row:
    if not isinstance(value, dict):
        raise UserError(f"{where}: expected an object of columns, found {type(value).__name__}")
    _check_cells(where, value)
    for name, field in value.items():
        if not _writable(name) or not _writable(field):
            error = FieldError(
                name, "text without halves of surrogate pairs, which UTF-8 cannot write", field
            )
            raise UserError(f"{where}, {error}")
    return value


def _writable(value: object) -> bool:
    """Whether UTF-8 can write what JSON has read: `"\\ud800"` is JSON and no text."""
    if isinstance(value, str) and value.isascii():
        return True
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _limit(which: tuple[str, int]) -> int:
    """Return a limit: what the environment says, else the default.

    Raises:
        UserError: the variable is no number above 0.
    """
    variable, default = which
    text = os.environ.get(variable, str(default))
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UserError(f"{variable} is {text!r}: expected a whole number above 0")
    return int(text)


def _check_size(where: str, size: int) -> None:
    """Refuse content that is too large.

    Args:
        where: the file.
        size: bytes, unpacked; at least so many.

    Raises:
        UserError: more than the limit; the message says how to raise it.
    """
    most = _limit(DATA_MB)
    if size > most * 1_000_000:
        raise UserError(f"{where} holds more than {most:,} MB; set {DATA_MB[0]} to read it all the same")


def _check_line(where: str, size: int) -> None:
    """Refuse a line that is too long.

    Args:
        where: the file and line.
        size: bytes.

    Raises:
        UserError: more than the limit; the message says how to raise it.
    """
    most = LINE_CELLS * _limit(CELL)
    if size > most:
        raise UserError(
            f"{where}: {size:,} bytes, expected at most {most:,}; is this a file of rows? If so, raise "
            f"{CELL[0]} (now {_limit(CELL):,}), {LINE_CELLS} times which a line may have"
        )


def _check_cells(where: str, row: Mapping[str, Any]) -> None:
    """Refuse a row with a text that is too long, also inside a list or an object.

    Args:
        where: the file and line.
        row: column -> value.

    Raises:
        UserError: more than the limit; the message says how to raise it.
    """
    most = _limit(CELL)
    for name, value in row.items():
        found = _longest(value)
        if found > most:
            raise UserError(
                f"{where}, field {name!r}: {found:,} characters, expected at most {most:,}; cut it, drop the column, "
                f"or set {CELL[0]} to read it all the same"
            )


def _longest(value: object) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, Mapping):
        return max(map(_longest, value.values()), default=0)
    return max(map(_longest, value), default=0) if isinstance(value, (list, tuple)) else 0
