"""An SQLite file of readings that survives damage without losing undamaged rows.

SQLite notices most damage when it reads a page, but not all: if keys are out of order, existing
rows are not found, and added rows are lost. So the whole file is checked when it is opened. A
process that finds damage moves the file, with its logs, to a new name (`readings.damaged-1`), and
copies every readable row with a correct checksum into a new file. Processes do this one at a time.
A process that finds a different file under the name than the one it has open opens the new one.
"""

from __future__ import annotations

import logging
import math
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
"""How often an access is tried: there may be damage in a file, and again in one that another
process put in its place."""

_DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""Errors that damage causes; SQLite's messages may quote a damaged schema, which Python cannot
decode."""

_PAGES = slice(28, 32)
"""The bytes of a database's first page that hold the number of pages."""

_LOGS = ("-wal", "-shm", "-journal")
"""The endings of files that SQLite keeps beside a database."""


class Row(NamedTuple):
    """A row of the file: a reading."""

    key: bytes
    value: str
    """The answer as JSON."""
    tokens: int
    seconds: float
    checksum: int
    """The checksum of the other fields."""

    @property
    def is_whole(self) -> bool:
        """Whether the row is undamaged."""
        return checksum(*self[:4]) == self.checksum


def checksum(key: Any, value: Any, tokens: Any, seconds: Any) -> int:
    """Return the checksum of a row, from its four other fields; for the arguments see the table
    that `ReadingsFile` creates."""
    return zlib.crc32(repr((key, value, tokens, seconds)).encode())


class ReadingsFile:
    """A file of readings by key. It is created on first use, and may be used by several processes.

    Raises:
        UserError: from every method, if the disk is full, or the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection to the file that is currently at the path."""
        if self._connection is not None and self._identity != _identity(self.path):
            self.close()  # another process has set the file aside
        while self._connection is None:
            before = _identity(self.path)
            connection = sqlite3.connect(self.path, timeout=600, check_same_thread=False)
            self._connection = connection
            self._identity = _identity(self.path)
            if before not in (None, self._identity):
                self.close()  # it is unknown which of the two was opened
            else:
                _prepare(connection)
        return self._connection

    def prepare(self) -> None:
        """Open the file, or create it."""
        self._attempt(lambda connection: None)

    def find(self, keys: Sequence[bytes]) -> list[Row]:
        """Return the rows that have one of the keys, damaged ones included."""
        rows: list[Row] = []
        for start in range(0, len(keys), _KEYS_A_QUERY):
            some = keys[start : start + _KEYS_A_QUERY]
            marks = ",".join("?" * len(some))
            rows += self._rows(f"WHERE key IN ({marks})", some)
        return rows

    def whole_rows(self) -> Iterator[list[Row]]:
        """Yield all undamaged rows, some thousands at a time."""
        last = b""
        while rows := self._rows(f"WHERE key > ? ORDER BY key LIMIT {_ROWS_AT_ONCE}", [last]):
            last = rows[-1].key
            yield [row for row in rows if row.is_whole]

    def add(self, rows: Sequence[Row], *, replace: bool) -> None:
        """Add rows. They are on the disk when this returns. If a key exists, its row is replaced,
        or kept if `replace` is False."""
        insert = f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO readings VALUES (?,?,?,?,?)"

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany(insert, rows)

        self._attempt(write)

    def close(self) -> None:
        """Close the file. It is opened again on next use."""
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
        """Return the result of `work` with the connection. If it finds damage, the file is replaced
        and `work` is repeated."""
        for _ in range(_ATTEMPTS):
            try:
                return work(self.connection)
            except sqlite3.OperationalError as error:
                # another process may have set the file aside while it was in use: the next attempt
                # opens the one that is now in its place
                was_moved = self._identity != _identity(self.path)
                if not was_moved and self._is_damage(error):
                    self._set_aside(error)
                    continue
                self.close()
                if not was_moved:
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
        missing permissions. SQLite reports a damaged header or schema as another format, as a
        missing table, or as a read-only file."""
        code = error.sqlite_errorcode & 0xFF
        if code == sqlite3.SQLITE_READONLY:
            return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        return code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA)

    def _set_aside(self, error: Exception) -> None:
        """Move the open file away, unless another process has, and save its rows."""
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
            # closed only now, because SQLite then leaves the logs of the moved file alone
            self.close()
            rows = _readable_rows(aside)
            log.warning(
                "%s is damaged (%s); it lies in %s now, %d of its readings could be saved: prompts "
                "of the others are read again",
                self.path,
                error,
                aside.name,
                len(rows),
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
    """Create the table in a new file, or check an existing file.

    Raises:
        sqlite3.DatabaseError: a page, the order of the keys, or the table is damaged.
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
    """Make SQLite return damaged texts, which are recognised by their checksums, instead of
    raising."""
    connection.text_factory = lambda text: text.decode(errors="replace")


def _readable_rows(path: Path) -> list[Row]:
    """The undamaged rows of a damaged file. Unless all of it can be read, it is read again with the
    first page of a new file."""
    rows: dict[bytes, Row] = {}
    with closing(sqlite3.connect(path)) as damaged:
        complete = _collect(damaged, rows)
    if not complete and hasattr(damaged, "deserialize"):  # SQLite may be built without it
        with closing(sqlite3.connect(":memory:")) as damaged:
            damaged.deserialize(_with_new_first_page(path.read_bytes()))
            _collect(damaged, rows)
    return list(rows.values())


def _with_new_first_page(content: bytes) -> bytes:
    """The content of a damaged file with its first page, which holds header and schema, replaced by
    that of an empty file of readings, and with the actual number of pages."""
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.execute(_TABLE.format(condition=""))
        [[size]] = empty.execute("PRAGMA page_size")
        first_page = bytearray(empty.serialize()[:size])
    pages = math.ceil(len(content) / size)
    first_page[_PAGES] = pages.to_bytes(4, "big")
    return (bytes(first_page) + content[size:]).ljust(pages * size, b"\0")


def _collect(damaged: sqlite3.Connection, rows: dict[bytes, Row]) -> bool:
    """Collect the undamaged rows that a connection finds, by key. Return whether no page was
    damaged.

    Pages are read in order; if one is damaged, rows are read by ranges of keys, so that only rows
    in the ranges of a damaged page are lost.
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
        return False  # not a database with such a table
    for first_byte in range(256):
        # keys have 16 bytes, so that 17 bytes of 0xff lie above all of them
        after = bytes([first_byte + 1]) if first_byte < 255 else b"\xff" * 17
        if not between(bytes([first_byte]), after):
            for second_byte in range(256):
                high = bytes([first_byte, second_byte + 1]) if second_byte < 255 else after
                between(bytes([first_byte, second_byte]), high)
    return False
