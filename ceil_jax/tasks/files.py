"""Rows from files of JSON lines, JSON, CSV and parquet, each knowing the line it stood on."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.tasks.spec import FieldError, Row

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True)
class Split:
    """Rows and where each came from."""

    source: str
    """A file, or a hub repository at a revision."""
    rows: Sequence[Row]
    lines: Sequence[int]
    """Of each row: its line in a text file, its number (from 1) elsewhere."""
    unit: str = "line"

    def where(self, position: int) -> str:
        return f"{self.source}, {self.unit} {self.lines[position]}"


def read_split(path: Path) -> Split:
    """The rows of one file, by its suffix.

    Raises:
        UserError: no such file, an unknown suffix, no rows, or the first line that cannot be read.
    """
    name = path.name.removesuffix(".gz")
    if path.is_dir():
        raise UserError(f"{path} is a folder: name one file, ending in {', '.join(SUFFIXES)}")
    if not name.endswith((".jsonl", ".json", ".csv", ".parquet")):
        raise UserError(f"cannot read {path}: expected a file ending in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise UserError(f"no file {path}")
    if name.endswith(".parquet"):
        split = _parquet(path)
    else:
        read = _jsonl if name.endswith(".jsonl") else _json if name.endswith(".json") else _csv
        numbered = list(read(path, _bytes(path)))
        unit = "row" if name.endswith(".json") else "line"
        split = Split(str(path), [row for _, row in numbered], [line for line, _ in numbered], unit)
    if not split.rows:
        raise UserError(f"{path} holds no rows")
    return split


def find_split(folder: Path, *names: str) -> tuple[Path, bool] | None:
    """(file, whole) of the first name with a file; a partial split's has a suffix: `train_sample.jsonl`."""
    for name in names:
        for suffix in SUFFIXES:
            if (folder / f"{name}{suffix}").is_file():
                return folder / f"{name}{suffix}", True
    for name in names:
        partial = [p for suffix in SUFFIXES for p in sorted(folder.glob(f"{name}_*{suffix}")) if p.is_file()]
        if partial:
            return partial[0], False
    return None


def _bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from None


def _lines(path: Path, content: bytes) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
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


def _object(where: str, value: object) -> Row:
    if not isinstance(value, dict):
        raise UserError(f"{where}: expected an object of columns, found {type(value).__name__}")
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


def _jsonl(path: Path, content: bytes) -> Iterator[tuple[int, Row]]:
    for number, line in _lines(path, content):
        if line.strip():
            yield number, _object(f"{path}, line {number}", _parse(path, number, line))


def _json(path: Path, content: bytes) -> Iterator[tuple[int, Row]]:
    """A list of objects; the number of a row is its place in the list."""
    value = _parse(path, 1, "\n".join(line for _, line in _lines(path, content)))
    if not isinstance(value, list):
        raise UserError(f"{path}: expected a JSON list of objects, found {type(value).__name__}")
    for number, row in enumerate(value, 1):
        yield number, _object(f"{path}, row {number}", row)


def _csv(path: Path, content: bytes) -> Iterator[tuple[int, Row]]:
    text = "\n".join(line for _, line in _lines(path, content))
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
                yield line, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: not CSV ({error})") from None


def _parquet(path: Path) -> Split:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    return Split(str(path), rows, range(1, len(rows) + 1), unit="row")
