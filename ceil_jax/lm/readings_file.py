"""One SQLite file of readings, in which damage is met without losing what is whole.

SQLite reports much damage when it reads a page, but not all: where keys are out of order, rows that
are there are not found, and rows that are added are lost. So a file is checked as a whole when it
is opened. The process that meets damage moves the file it has open, with its logs, to a new name
(`readings.damaged-1`), and copies every row that can still be read and has the right checksum into
a new file in its place. Processes do this one at a time; one that finds another file under the name
than the one it has open opens that one instead.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ceil_jax.errors import UserError
from ceil_jax.store.locking import held

log = logging.getLogger(__name__)

T = TypeVar("T")

_TABLE = (
    "CREATE TABLE {condition}readings (key BLOB PRIMARY KEY, value TEXT NOT NULL, tokens "
    "INTEGER NOT NULL, seconds REAL NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID"
)

_COLUMNS = "key, value, tokens, seconds, checksum"

_KEYS_A_QUERY = 500

_ROWS_AT_ONCE = 5000

_ATTEMPTS = 4
"""Times that an access is tried: damage may be met in a file and in what other processes put in its
place."""

_DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What damage raises; SQLite's messages may quote a damaged schema, which Python cannot decode."""

_PAGES = slice(28, 32)
"""The position of the number of pages in a database's first page."""

_LOGS = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps beside a database."""


class Row(NamedTuple):
    """A reading as it is stored."""

    key: bytes
    value: str
    """The answer as JSON."""
    tokens: int
    seconds: float
    checksum: int
    """The checksum of the other fields."""

    @property
    def is_whole(self) -> bool:
        """Whether the row is as it was written."""
        return checksum(*self[:4]) == self.checksum


def checksum(key: Any, value: Any, tokens: Any, seconds: Any) -> int:
    """Return the checksum of a row's other fields."""
    return zlib.crc32(repr((key, value, tokens, seconds)).encode())


class ReadingsFile:
    """A file of readings by key; it is made when it is first used, and may be used by several
    processes.

    Raises:
        UserError: by every method, if the disk is full, or the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection to the file that has the path now."""
        if self._connection is not None and self._identity != _identity(self.path):
            self.close()  # another process has set the file aside
        while self._connection is None:
            before = _identity(self.path)
            connection = sqlite3.connect(self.path, timeout=600, check_same_thread=False)
            self._connection = connection
            self._identity = _identity(self.path)
            if before not in (None, self._identity):
                self.close()  # which of the two was opened is not known
            else:
                _prepare(connection)
        return self._connection

    def prepare(self) -> None:
        """Open the file, or make it."""
        self._attempt(lambda connection: None)

    def find(self, keys: Sequence[bytes]) -> list[Row]:
        """Return the rows of those keys that are there, damaged ones included."""
        rows: list[Row] = []
        for start in range(0, len(keys), _KEYS_A_QUERY):
            some = keys[start : start + _KEYS_A_QUERY]
            marks = ",".join("?" * len(some))
            rows += self._rows(f"WHERE key IN ({marks})", some)
        return rows

    def whole_rows(self) -> Iterator[list[Row]]:
        """Yield all rows that are whole, some thousands at a time."""
        last = b""
        while rows := self._rows(f"WHERE key > ? ORDER BY key LIMIT {_ROWS_AT_ONCE}", [last]):
            last = rows[-1].key
            yield [row for row in rows if row.is_whole]

    def add(self, rows: Sequence[Row], *, replace: bool) -> None:
        """Add rows; they are on the disk when this returns. A row whose key is there replaces that
        one, or is left out."""
        insert = f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO readings VALUES (?,?,?,?,?)"

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany(insert, rows)

        self._attempt(write)

    def close(self) -> None:
        """Close the file; it is opened again when it is next used."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            connection.close()

    def _rows(self, condition: str, arguments: Sequence[Any]) -> list[Row]:
        query = f"SELECT {_COLUMNS} FROM readings {condition}"
        return self._attempt(
            lambda connection: [Row(*row) for row in connection.execute(query, arguments)]
        )

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `work` does with the connection; damage that it meets is set aside, and it is
        done again."""
        for _ in range(_ATTEMPTS):
            try:
                return work(self.connection)
            except sqlite3.OperationalError as error:
                moved = self._identity != _identity(self.path)
                if not moved and self._is_damage(error):
                    self._set_aside(error)
                    continue
                self.close()
                if not moved:
                    raise UserError(
                        f"{self.path}: {error}; make room or see that it can be written, and run "
                        "the same command again"
                    ) from None
            except _DAMAGE as error:
                self._set_aside(error)
        raise UserError(
            f"{self.path}: damage is met again in each new file; see whether its disk fails"
        )

    def _is_damage(self, error: sqlite3.OperationalError) -> bool:
        """Return whether an error comes from damage to the file's content, and not from the disk or
        missing rights. SQLite reports a damaged header or schema as another format, as a missing
        table, or as a file that may not be written."""
        code = error.sqlite_errorcode & 0xFF
        if code == sqlite3.SQLITE_READONLY:
            return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        return code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA)

    def _set_aside(self, error: Exception) -> None:
        """Move the file that is open out of the way, unless another process did, and save its
        rows."""
        with held(self.path.parent, f".{self.path.stem}.lock"):
            if self._identity != _identity(self.path):
                self.close()
                return
            names = (self.path.with_suffix(f".damaged-{number}") for number in count(1))
            aside = next(name for name in names if not name.exists())
            self.path.rename(aside)
            # SQLite would add the logs to the next file of that name
            for ending in _LOGS:
                beside = Path(f"{self.path}{ending}")
                if beside.exists():
                    beside.rename(f"{aside}{ending}")
            # closed only now: SQLite leaves the logs of a file alone that was moved
            self.close()
            rows = _readable_rows(aside)
            log.warning(
                "%s is damaged (%s); it lies in %s now, %d of its readings could be saved: prompts "
                "of the others are read again",
                *(self.path, error, aside.name, len(rows)),
            )
        self.add(rows, replace=False)


def _identity(path: Path) -> tuple[int, int] | None:
    """The device and inode of a file; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the table of a new file; check an old one.

    Raises:
        sqlite3.DatabaseError: if it is damaged: a page, the order of its keys, or its table.
    """
    _accept_any_text(connection)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    [[pages]] = connection.execute("PRAGMA page_count")
    if pages <= 1:  # a longer file without a table has lost it
        connection.execute(_TABLE.format(condition="IF NOT EXISTS "))
    tables = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
    [[encoding]] = connection.execute("PRAGMA encoding")
    if tables != [("readings", _TABLE.format(condition=""))] or encoding != "UTF-8":
        raise sqlite3.DatabaseError("its table is not one of readings")
    [[verdict]] = connection.execute("PRAGMA integrity_check(1)")
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


def _accept_any_text(connection: sqlite3.Connection) -> None:
    """Let damaged texts be read, which are found by their checksums."""
    connection.text_factory = lambda text: text.decode(errors="replace")


def _readable_rows(path: Path) -> list[Row]:
    """The whole rows of a damaged file: as it is, and unless all of it can be read, with the first
    page of a new one too."""
    rows: dict[bytes, Row] = {}
    with closing(sqlite3.connect(path)) as damaged:
        complete = _collect(damaged, rows)
    if not complete and hasattr(damaged, "deserialize"):  # SQLite may be built without it
        with closing(sqlite3.connect(":memory:")) as damaged:
            damaged.deserialize(_with_new_first_page(path.read_bytes()))
            _collect(damaged, rows)
    return list(rows.values())


def _with_new_first_page(content: bytes) -> bytes:
    """A damaged file's content with the first page, which has the header and the schema, of an
    empty file of readings, and with the number of pages that are there."""
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.execute(_TABLE.format(condition=""))
        [[size]] = empty.execute("PRAGMA page_size")
        first_page = bytearray(empty.serialize()[:size])
    pages = -(-len(content) // size)
    first_page[_PAGES] = pages.to_bytes(4, "big")
    return (bytes(first_page) + content[size:]).ljust(pages * size, b"\0")


def _collect(damaged: sqlite3.Connection, rows: dict[bytes, Row]) -> bool:
    """Add the whole rows that a connection finds, by key; return whether no page was damaged.

    It reads page after page, and after a damaged page by ranges of keys, so that the page hides
    only the rows of the ranges that it is part of.
    """
    _accept_any_text(damaged)

    def read(condition: str, *arguments: bytes) -> bool:
        query = f"SELECT {_COLUMNS} FROM readings {condition}"
        try:
            for fields in damaged.execute(query, arguments):
                row = Row(*fields)
                if row.is_whole:
                    rows[row.key] = row
        except _DAMAGE:
            return False
        return True

    def between(low: bytes, high: bytes) -> bool:
        return read("WHERE key >= ? AND key < ?", low, high)

    if read(""):
        return True
    if not read("WHERE FALSE"):
        return False  # no database with such a table
    for first_byte in range(256):
        # keys have 16 bytes, so that 17 bytes of 0xff lie above all of them
        after = bytes([first_byte + 1]) if first_byte < 255 else b"\xff" * 17
        if not between(bytes([first_byte]), after):
            for second_byte in range(256):
                high = bytes([first_byte, second_byte + 1]) if second_byte < 255 else after
                between(bytes([first_byte, second_byte]), high)
    return False
