"""The reader of all tables: files, data frames and lists of rows become rows with their numbers.

A file is .csv or .tsv with a header, .jsonl, .json (a list of objects) or .parquet, in UTF-8 or the
encoding that the user names, and may be compressed (.gz, .bz2, .xz, .zst, a .zip of one file). The
ending of its name decides. A table in memory is whatever hands over its columns as Arrow does
(pandas, polars, pyarrow, DuckDB), or a data set of `datasets`; these and parquet files are
converted by `_arrow_rows` alone. Every file that cannot be read ends in the message of
`_unreadable`.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ceil_jax.errors import UserError
from ceil_jax.store.places import user_path
from ceil_jax.tasks.cells import as_text
from ceil_jax.tasks.checks import check_names
from ceil_jax.tasks.spec import Row, RowError

if TYPE_CHECKING:
    import pyarrow as pa

TableLike = str | os.PathLike[str] | Any
"""A file's path, a table in memory, or a list of rows (mappings of columns to values)."""

ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")

DELIMITERS = ",;\t|"
"""The delimiters that are detected from the header; any other has to be named."""

SMALL = 64 * 2**20
RATIO = 100
"""Factor of the size limit for compressed files: such a file may hold SMALL bytes, or RATIO times
its own size if that is more. Texts are 3 to 20 times as large as their gzip files; a file that is
made to fill the memory may be 1,000 times as large."""

MOST_ROWS = 5_000_000
MOST_UNUSABLE = 100_000
"""The maximum number of rows of a text file, and the maximum number of them that may be unusable."""

csv.field_size_limit(2**31 - 1)  # the default is below the limit of `checks.check_text`


@dataclass(frozen=True)
class Table:
    """The rows of a file, of a table in memory or of a split."""

    rows: Sequence[Row | RowError]
    """Each row, or the error that makes it unusable."""
    source: str
    """The table's name in messages: a file, "data frame", or a hub repository at a revision."""
    numbers: Sequence[int] = ()
    """The first line of each row in a text file; by default the rows are numbered from 1."""
    unit: str = "row"
    """The word for a row before its number: row, or line."""

    @property
    def columns(self) -> list[str]:
        """The names of all columns, in order of appearance."""
        rows = (row for row in self.rows if not isinstance(row, RowError))
        return list(dict.fromkeys(name for row in rows for name in row))

    def texts(self, column: str) -> list[str]:
        """Return the texts in a column, without the cells and rows that have none."""
        cells = (as_text(row.get(column)) for row in self.rows if not isinstance(row, RowError))
        return [text for text in cells if text]

    def place(self, position: int) -> str:
        """Return the number of the row at a position, as messages have it."""
        return str(self.numbers[position] if self.numbers else position + 1)


def read_table(source: TableLike, delimiter: str | None = None, encoding: str = "utf-8") -> Table:
    """Return the rows of a file, a table in memory or a list of rows.

    Args:
        source: see `TableLike`.
        delimiter: the character between the values of a .csv or .tsv file; by default the one of
            DELIMITERS that splits the header into the most names.
        encoding: the encoding of a text file.

    Raises:
        UserError: the value is no such table, it holds no rows, or two columns have one name.
    """
    if isinstance(source, str | os.PathLike):
        table = _read_file(existing_file(source), delimiter, encoding)
    elif isinstance(source, list | tuple):
        table = Table([_row(value) for value in source], "list of rows")
    elif (frame := frame_table(source)) is not None:
        table = frame
    else:
        keys = f" of {', '.join(map(str, source))}" if isinstance(source, Mapping) else ""
        raise UserError(
            "expected a file, a data frame, a data set or a list of rows, found a "
            f"{type(source).__name__}{keys:.200}"
        )
    if not table.rows:
        raise UserError(f"{table.source} holds no rows")
    return table


def _row(value: Any) -> Row | RowError:
    if isinstance(value, Mapping):
        return value
    return RowError(f"expected an object of columns, found {type(value).__name__}")


# --- files


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file of this machine. A UserError if there is none."""
    file = user_path(path)
    name = " ".join(str(file).split())[:200]
    try:
        if file.is_file():
            return file
        if file.is_dir():
            raise UserError(f"{name} is a folder; expected a file")
    except (OSError, ValueError):  # a name that no file can have, such as a whole text
        pass
    raise UserError(f"no file {name}")


def _read_file(file: Path, delimiter: str | None, encoding: str) -> Table:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise UserError(f"delimiter {delimiter!r}: expected one character, such as ';' or a tab")
    try:
        _check_ending(file.suffix, (*ENDINGS, *COMPRESSED))
        ending, content = _unpacked(file)
        _check_ending(ending, ENDINGS)
        if ending == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            return _arrow_rows(pq.read_table(pa.BufferReader(content)), str(file))
        text = _decoded(content, encoding)
        if ending == ".json":
            table = Table([_row(value) for value in _json_list(text)], str(file))
        else:
            rows = _bounded(
                _json_lines(text)
                if ending == ".jsonl"
                else _csv_rows(file, text, delimiter, "\t" if ending == ".tsv" else "")
            )
            values = [row for _, row in rows]
            table = Table(values, str(file), [number for number, _ in rows], "line")
        if table.rows and not table.columns:
            raise ValueError(f"{table.unit} {table.place(0)}: {table.rows[0]}")
        return table
    except _UNREADABLE as error:
        raise _unreadable(file, error) from None


def _bounded(rows: Iterable[tuple[int, Row | RowError]]) -> list[tuple[int, Row | RowError]]:
    """Return the rows of a text file.

    A ValueError if there are more than fit into memory, which a small compressed file may hold, or
    too many that cannot be used.
    """
    kept = []
    unusable = 0
    for number, row in rows:
        kept.append((number, row))
        unusable += isinstance(row, RowError)
        if len(kept) > MOST_ROWS:
            raise ValueError(f"it has more than {MOST_ROWS:,} rows; give a part of them")
        if unusable > MOST_UNUSABLE:
            raise ValueError(
                f"more than {MOST_UNUSABLE:,} rows cannot be used, the last in line {number}: {row}"
            )
    return kept


def _check_ending(ending: str, known: Collection[str]) -> None:
    if ending.lower() not in known:
        raise ValueError(f"its name ends in {ending!r}")


_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,  # of json and pyarrow too, and for bytes of another encoding
    TypeError,  # of pyarrow
    LookupError,  # an unknown encoding
    RuntimeError,  # a .zip with a password; JSON that is nested too deeply
    OverflowError,  # a date that Python does not have
    MemoryError,
    SystemError,
    csv.Error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)
"""The exceptions of the libraries for files that they cannot read."""


def _unreadable(file: Path, error: BaseException) -> UserError:
    """Return the error for a file that cannot be read."""
    start = "nothing that can be read"
    try:
        with file.open("rb") as stream:
            start = repr(stream.read(80))
    except OSError:
        pass
    why = " ".join(str(error).split())[:300] or type(error).__name__
    return UserError(
        f"cannot read {file}: {why}. It begins with {start}. Supported: .csv and .tsv with a "
        "header, .jsonl, .json (a list of objects) and .parquet; text in UTF-8, or --encoding "
        "(encoding=…); also as .gz, .bz2, .xz, .zst or a .zip of one file. Open anything else with "
        "the program that made it or with pandas, and save it as CSV (UTF-8)"
    )


_PACKED: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def _unpacked(file: Path) -> tuple[str, bytes]:
    """Return the ending of a file's name, without that of its compression, and the file's unpacked content."""
    most = max(SMALL, RATIO * file.stat().st_size)
    ending = file.suffix.lower()
    inner = Path(file.stem)
    if ending == ".zip":
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if len(names) != 1:
                raise ValueError(f"it is a .zip of {len(names):,} files")
            inner = Path(names[0])
            with archive.open(names[0]) as stream:
                content = stream.read(most + 1)
    elif ending == ".zst":
        import pyarrow as pa

        with pa.CompressedInputStream(str(file), "zstd") as stream:
            content = stream.read(most + 1)
    elif ending in _PACKED:
        with _PACKED[ending](file) as stream:
            content = stream.read(most + 1)
    else:
        return ending, file.read_bytes()
    if len(content) > most:
        raise ValueError(f"it unpacks to more than {most / 2**20:,.0f} MiB; unpack it first")
    return inner.suffix.lower(), content


def _decoded(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not {encoding} ({error.reason})") from None


def _csv_rows(
    file: Path, text: str, delimiter: str | None, preferred: str
) -> Iterator[tuple[int, Row | RowError]]:
    """Yield the first line and the cells of each row below the header."""
    if delimiter is None:
        marks = f"{preferred}{DELIMITERS}"  # of several that do, the first
        delimiter = max(marks, key=lambda mark: len(_first_cells(text, mark)))
    records = _records(text, delimiter)
    line, header = next(records, (0, []))
    names = [name.strip() for name in header]
    check_names(names, str(file))
    shown = f"the header has {len(names)} (line {line}: {', '.join(map(repr, names)):.80})"
    for number, cells in records:
        if len(cells) == len(names):
            yield number, dict(zip(names, cells, strict=True))
        else:
            yield number, RowError(f"{len(cells)} cells, {shown}")


def _first_cells(text: str, delimiter: str) -> list[str]:
    """The cells of the first line that is not empty."""
    lines = io.StringIO(text.lstrip("\r\n"), newline="")
    return next(csv.reader(lines, delimiter=delimiter), [])


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of each record that has any text."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    line = 1
    try:
        for cells in reader:
            if any(cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"the row that begins in line {line} is not CSV ({error}): a cell with a quote, the "
            "delimiter or a line break is quoted, and a quote in it doubled"
        ) from None


def _json_lines(text: str) -> Iterator[tuple[int, Row | RowError]]:
    """Yield the number and the object of each line that is not blank."""
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        if line.strip():
            try:
                yield number, _row(decoder.decode(line))
            except (ValueError, RecursionError) as error:
                yield number, RowError(f"not JSON ({error}): {line.strip()[:60]!r}")


def _json_list(text: str) -> list[Any]:
    values = json.loads(text, object_pairs_hook=_object)
    if not isinstance(values, list):
        keys = f"one object of {', '.join(map(repr, values))}" if isinstance(values, dict) else ""
        raise ValueError(f"expected a list of objects, found {keys or repr(values):.200}")
    return values


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError(f"a name is repeated in {', '.join(name for name, _ in pairs)}")
    return mapping


# --- tables in memory, and parquet


def frame_table(source: Any) -> Table | None:
    """Return the rows of a table in memory; None if the value is not one.

    Raises:
        UserError: a column cannot be converted, or two columns have one name.
    """
    is_data_set = hasattr(source, "with_format") and not isinstance(source, Mapping)
    if not is_data_set and not hasattr(source, "__arrow_c_stream__"):
        return None
    name = "data set" if is_data_set else "data frame"
    import pyarrow as pa

    try:
        if is_data_set and not hasattr(source, "num_rows"):  # a streamed one
            import datasets

            source = datasets.Dataset.from_list(list(source), source.features)
        return _arrow_rows(
            pa.table(source.with_format("arrow")[:] if is_data_set else source), name
        )
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        why = " ".join(str(error).split())
        raise UserError(
            f"{name}: {why:.300}; rename the column, give it one type, such as "
            "frame['column'].astype(str), or drop it"
        ) from None


_INDEX = re.compile(r"__index_level_\d+__")
"""The name of an index of pandas that has none."""


def _arrow_rows(table: pa.Table, source: str) -> Table:
    """Return the rows of an Arrow table.

    Damaged data are a ValueError, which they are before a value is touched: pyarrow would read
    behind its buffers.
    """
    table.validate(full=True)
    check_names(table.column_names, source)
    labels = _label_names(table.schema)
    columns: dict[str, list[Any]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.to_pylist()
        if name in labels:
            names = dict(enumerate(labels[name]))  # −1 means no label
            values = [names.get(value) for value in values]
        if not _INDEX.fullmatch(name):
            columns[name] = values
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return Table(rows, source)


def _label_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Return the names of the labels in each column of ClassLabels.

    `datasets` describes them in the schema.
    """
    if b"huggingface" not in (schema.metadata or {}):
        return {}
    from datasets import ClassLabel, Features

    try:
        features = Features.from_arrow_schema(schema)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its description by `datasets` cannot be read: {error}") from None
    return {name: kind.names for name, kind in features.items() if isinstance(kind, ClassLabel)}
