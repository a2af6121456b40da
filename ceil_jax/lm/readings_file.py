"""An SQLite file of readings. A damaged file is set aside and replaced by a new one.

A commit is in the file itself, flushed to the disk, when it returns; a commit that a kill broke is
undone by whoever opens the file next. SQLite notices most damage when it reads a page, but not
keys that are out of order, so the whole file is checked when it is opened; each row has a checksum
of its own.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
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

_ATTEMPTS = 3
"""Number of attempts at an access; each damaged file is set aside before the next attempt."""

_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""SQLite's errors; its messages may quote a damaged schema, which Python cannot decode."""

_DATABASE_AND_LOGS = ("-journal", "-wal", "-shm", "")
"""The endings of the names of a database's files, the logs first: SQLite would apply logs that stay
behind to a new database."""


class Row(NamedTuple):
    """A row of the file, which holds one reading."""

    key: bytes
    value: str
    """The answer as JSON."""
    tokens: int
    seconds: float
    checksum: int
    """The checksum of the other fields."""

    @property
    def is_whole(self) -> bool:
        """True if the row is undamaged."""
        return checksum(*self[:4]) == self.checksum


def checksum(key: Any, value: Any, tokens: Any, seconds: Any) -> int:
    """Return the checksum of a row, from its four other fields.

    For the arguments see the table that `ReadingsFile` creates.
    """
    return zlib.crc32(repr((key, value, tokens, seconds)).encode())


class ReadingsFile:
    """A file of readings by key. It is created on first use, and may be used by several processes.

    Raises:
        UserError: from every method, if the disk is full, or the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_checked = False

    def prepare(self) -> None:
        """Check the file, or create it."""
        self._attempt(lambda connection: None)

    def find(self, keys: Sequence[bytes]) -> list[Row]:
        """Return the rows that have one of the keys, damaged ones included."""
        rows: list[Row] = []
        for start in range(0, len(keys), _KEYS_A_QUERY):
            some = keys[start : start + _KEYS_A_QUERY]
            rows += self._rows(f"WHERE key IN ({','.join('?' * len(some))})", some)
        return rows

    def whole_rows(self) -> Iterator[list[Row]]:
        """Yield all undamaged rows, some thousands at a time."""
        last = b""
        while rows := self._rows(f"WHERE key > ? ORDER BY key LIMIT {_ROWS_AT_ONCE}", [last]):
            last = rows[-1].key
            yield [row for row in rows if row.is_whole]

    def add(self, rows: Sequence[Row], *, replace: bool) -> None:
        """Add rows, which are on the disk when this returns.

        If a key exists, its row is replaced, or kept if `replace` is False.
        """
        insert = f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO readings VALUES (?,?,?,?,?)"
        self._attempt(lambda connection: connection.executemany(insert, rows))

    def _rows(self, condition: str, arguments: Sequence[Any]) -> list[Row]:
        query = f"SELECT {_COLUMNS} FROM readings {condition}"
        return self._attempt(
            lambda connection: [Row(*row) for row in connection.execute(query, arguments)]
        )

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `work` with a connection, in one transaction.

        A damaged file is set aside, and `work` repeated with a new one.
        """
        for _ in range(_ATTEMPTS):
            try:
                with _connected(self.path) as connection:
                    if not self._is_checked:
                        _check(connection)
                        self._is_checked = True
                    with connection:
                        return work(connection)
            except _ERRORS as error:
                if not self._is_damage(error):
                    raise UserError(
                        f"{self.path}: {error}; free some disk space or make the file writable, "
                        "and run "
                        "the same command again"
                    ) from None
                self._set_aside(error)
        raise UserError(f"{self.path}: each new file is damaged too; check the disk for errors")

    def _is_damage(self, error: Exception) -> bool:
        """Return whether an error comes from damage to the file's content.

        Other causes are the disk and missing permissions. SQLite reports a damaged header or schema
        as another format, as a missing table, or as a read-only file.
        """
        if not isinstance(error, sqlite3.OperationalError):
            return True
        code = error.sqlite_errorcode & 0xFF
        if code == sqlite3.SQLITE_READONLY:
            return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        return code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA)

    def _set_aside(self, error: Exception) -> None:
        """Move the file away, unless another process has."""
        with held(self.path.parent, f".{self.path.stem}.lock"):
            with suppress(*_ERRORS), _connected(self.path) as connection:
                _check(connection)
                return
            names = (self.path.with_suffix(f".damaged-{number}") for number in count(1))
            aside = next(name for name in names if not name.exists())
            for ending in _DATABASE_AND_LOGS:
                with suppress(FileNotFoundError):
                    Path(f"{self.path}{ending}").rename(f"{aside}{ending}")
        log.warning(
            "%s is damaged (%s) and was renamed to %s; its prompts are read again. To save what "
            "can be recovered: sqlite3 %s .recover | sqlite3 %s",
            self.path,
            " ".join(str(error).split()),
            aside.name,
            aside,
            # a file of such a name is copied in
            self.path.with_name(f"readings-saved-from-{aside.suffix[1:]}.sqlite"),
        )


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=600)) as connection:
        # damaged texts are recognised by their checksums
        connection.text_factory = lambda text: text.decode(errors="replace")
        connection.execute("PRAGMA synchronous=FULL")
        yield connection


def _check(connection: sqlite3.Connection) -> None:
    """Create the table in a new file, or check the table of an existing one.

    Raises:
        sqlite3.DatabaseError: a page, the order of the keys, or the table is damaged.
    """
    # files of earlier versions had a write-ahead log, whose end SQLite drops if a bit of it flips
    connection.execute("PRAGMA journal_mode=DELETE")
    [[pages]] = connection.execute("PRAGMA page_count")
    if pages == 0:
        connection.execute(_TABLE.format(condition="IF NOT EXISTS "))
    tables = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'readings'").fetchall()
    [[encoding]] = connection.execute("PRAGMA encoding")
    if tables != [(_TABLE.format(condition=""),)] or encoding != "UTF-8":
        raise sqlite3.DatabaseError("its table is not one of readings")
    [[verdict]] = connection.execute("PRAGMA integrity_check(1)")
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    # which a damaged header may forbid
    connection.execute("DELETE FROM readings WHERE FALSE")
    connection.rollback()
