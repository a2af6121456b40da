"""The formats of data files: JSON, JSON lines, separated values and parquet, read to rows with their lines.

How much is read has limits: a bomb, or a file that is no data set, ends in one line and not in a full memory.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import logging
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.spec import FieldError, Row, RowError

log = logging.getLogger(__name__)

Numbered = Iterator[tuple[int, Row | RowError]]
"""Each row, or what is wrong with it, with its line or number."""

DATA_MB = ("CEIL_JAX_MAX_DATA_MB", 1_000)
"""A file's content in MB, unpacked: the variable that raises it, and the default."""

CELL = ("CEIL_JAX_MAX_CELL", 200_000)
"""The characters of one field; an LM's context holds a fraction of it."""

_BOM = b"\xef\xbb\xbf"

LINE_CELLS = 100
"""A line may be as long as so many of the largest fields."""


def _file_bytes(path: Path) -> bytes:
    """Return a file's content without a byte order mark, unpacked where its name ends in .gz.

    Raises:
        UserError: it cannot be read, or is larger than the limit.
    """
    most = _limit(DATA_MB) * 1_000_000
    try:
        _check_size(str(path), path.stat().st_size)
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            content = stream.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    _check_size(str(path), len(content))
    return content.removeprefix(_BOM)


def json_rows(path: Path, delimiter: str | None = None) -> Numbered:
    """Yield (place, row) of each object of a JSON list, else (line, row) of each object, on one line or on several.

    The content decides, not the ending: pandas writes JSON lines under the name .json.
    """
    content = _file_bytes(path)
    if content.lstrip()[:1] == b"[":
        value = _parse("\n".join(line for _, line in _lines(path, content, limited=False)))
        if isinstance(value, RowError):
            raise UserError(f"{path}: {value}")
        yield from ((number, _row(row)) for number, row in enumerate(value, 1))
        return
    lines = [line for _, line in _lines(path, content, limited=True)]
    text = "\n".join(lines)
    place = after = 0  # in the text: where a line begins, and where the last object ended
    for number, line in enumerate(lines, 1):
        if line.strip() and place >= after:
            value = _parse(line)
            if isinstance(value, RowError) and line.lstrip()[0] == "{":
                with contextlib.suppress(ValueError, RecursionError):
                    value, after = json.JSONDecoder().raw_decode(text, place + line.index("{"))
            yield number, _row(value)
        place += len(line) + 1


def csv_rows(path: Path, delimiter: str | None = None) -> Numbered:
    """Yield (line, row) of each row of a table with a header; a row's line is its first one.

    Quotes are characters like any other where they do not pair up as CSV has them, and every line by itself has as
    many cells as the header; a warning says so.
    """
    lines = [line for _, line in _lines(path, _file_bytes(path), limited=True)]
    delimiter = delimiter or ("\t" if ".tsv" in path.name.lower() else ",")
    csv.field_size_limit(max(csv.field_size_limit(), sum(map(len, lines)) + len(lines)))  # 131,072 by default
    failure = ""
    rows: list[tuple[int, list[str]]] = []
    reader = csv.reader(io.StringIO("\n".join(lines), newline=""), strict=True, delimiter=delimiter)
    start = 1
    try:
        for cells in reader:
            if cells:
                rows.append((start, cells))
            start = reader.line_num + 1
    except csv.Error as error:
        failure = f"{path}, line {start}: a quote that begins or ends in this row has no partner ({error}); double it"
    if not rows and not failure:
        return
    plain = [(number, line.split(delimiter)) for number, line in enumerate(lines, 1) if line]
    width = len(plain[0][1])
    swallowed = delimiter == "\t" and any("\n" in cell and "\t" in cell for _, row in rows for cell in row)
    if failure or swallowed or any(len(cells) != width for _, cells in rows):
        if all(len(cells) == width for _, cells in plain):
            log.warning("%s: quotes do not pair up; they are read as characters like any other", path)
            rows = plain
        elif failure:
            raise UserError(failure)
    (line, header), *rest = rows
    _check_header(f"{path}, line {line}", header)
    for line, cells in rest:
        if len(cells) != len(header):
            yield line, RowError(f"{len(cells)} cells, the header has {len(header)}")
        else:
            yield line, dict(zip(header, cells, strict=True))


def _check_header(where: str, header: list[str]) -> None:
    if len({*header}) < len([name for name in header if name]) + ("" in header):
        raise UserError(f"{where}: two columns have one name: {', '.join(map(repr, header))}")
    for other in ";\t|,":
        if len(header) == 1 and other in header[0]:
            raise UserError(
                f"{where}: the header is one column, {header[0]!r:.80}; if {other!r} separates values, say so: "
                f"--delimiter {other!r} (delimiter={other!r} in Python)"
            )


def parquet_rows(path: Path, delimiter: str | None = None) -> Numbered:
    """Yield (number, row) of each row of a parquet file, with the names of its ClassLabels; numbers count from 1."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
            _check_size(str(path), sum(group.total_byte_size for group in groups))
            names = _label_names(file.schema_arrow.metadata or {})
            number = size = 0
            # few rows at a time: a dictionary of one long text makes a small file of many large rows
            for batch in file.iter_batches(batch_size=64):
                size += batch.nbytes
                _check_size(str(path), size)
                for row in batch.to_pylist():
                    number += 1
                    # -1 stands for no label
                    yield number, {**row, **{name: names[name].get(row[name]) for name in names}}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {str(error).splitlines()[0]}") from None


def _label_names(metadata: Mapping[bytes, bytes]) -> dict[str, dict[int, str]]:
    features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    labels = {name: kind for name, kind in features.items() if isinstance(kind, dict)}
    return {
        name: dict(enumerate(kind["names"]))
        for name, kind in labels.items()
        if kind.get("_type") == "ClassLabel"
    }


def _lines(path: Path, content: bytes, *, limited: bool) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if limited:
            _check_line(f"{path}, line {number}", len(line))
        try:
            yield number, line.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}, line {number}: not UTF-8 (byte {error.object[error.start]:#04x} at column "
                f"{error.start + 1}); convert the file, for example with iconv"
            ) from None


def _parse(content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        return RowError(f"not JSON ({error}): {content.strip()[:60]}")
    except RecursionError:
        return RowError("JSON nested too deeply")


def _row(value: Any) -> Row | RowError:
    if isinstance(value, dict | RowError):
        return value
    return RowError(f"expected an object of columns, found {type(value).__name__}")


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
    most = _limit(DATA_MB)
    if size > most * 1_000_000:
        raise UserError(f"{where} holds more than {most:,} MB; set {DATA_MB[0]} to read it all the same")


def _check_line(where: str, size: int) -> None:
    most = LINE_CELLS * max(_limit(CELL), CELL[1])
    if size > most:
        raise UserError(
            f"{where}: {size:,} bytes, expected at most {most:,}; is this a file of rows? If so, raise "
            f"{CELL[0]} (now {_limit(CELL):,}), {LINE_CELLS} times which a line may have"
        )


def check_cell(name: str, value: object) -> None:
    """Refuse a text that is too long, also inside a list or an object.

    Args:
        name: the column.
        value: the cell.

    Raises:
        FieldError: more characters than the limit; the message says how to raise it.
    """
    most = _limit(CELL)
    if (found := _longest(value)) > most:
        way = f"cut it, drop the column, or set {CELL[0]} to read it all the same"
        raise FieldError(name, f"at most {most:,} characters, not {found:,} ({way})", value)


def _longest(value: object) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, Mapping):
        return max(map(_longest, value.values()), default=0)
    return max(map(_longest, value), default=0) if isinstance(value, (list, tuple)) else 0
