"""Execution accuracy of SQL: a prediction is right if its result is that of the gold query."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics.base import Metric
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.sql_text import as_spider, is_ordered

log = logging.getLogger(__name__)

_COMMAND = [sys.executable, "-I", "-S", str(Path(__file__).with_name("sql_worker.py"))]

_SQLITE = b"SQLite format 3\x00"
"""The first bytes of a database."""
_HOT_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""The first bytes of a rollback journal that has not been rolled back or committed."""


class SqlOutcome(NamedTuple):
    """The outcome of a prediction: equal, different, error, cut (over a limit) or gold failed."""

    outcome: str
    detail: str = ""

    @property
    def right(self) -> bool:
        return self.outcome == "equal"


class SqlSandbox:
    """A child process (`sql_worker`) that runs queries on read-only databases.

    Used as `with SqlSandbox() as sandbox`.

    A slow operation that the limits do not stop ends the process; the next query starts another
    one.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> SqlSandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def compare(self, database: str | os.PathLike[str], gold: str, predicted: str) -> SqlOutcome:
        """Run two queries on an SQLite file, read-only, and compare their results.

        They are compared as the Spider evaluation does.

        Two results are equal if they have the same rows after a permutation of columns; in the same
        order if the gold query has ORDER BY outside brackets (`tasks.sql_text`). Values are
        compared as in Python: 1 equals 1.0, not "1". Two empty results are equal. DISTINCT is kept,
        which the test-suite evaluation strips by default; as there, `> =` is read as `>=` and
        YEAR(CURDATE()) as 2020. A prediction with the text of the gold query is not run.

        Raises:
            UserError: the database has rows in a journal file, or this is not a POSIX system.
        """
        _check_whole(database)
        if self._child is None:
            if os.name != "posix":
                raise UserError(
                    "SQL runs in a sandbox that needs a POSIX system: Linux, macOS, or WSL on "
                    "Windows"
                )
            pipe = subprocess.PIPE
            self._child = subprocess.Popen(
                _COMMAND, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        job = {
            "database": os.fspath(database),
            "gold": as_spider(gold),
            "predicted": as_spider(predicted),
            "ordered": is_ordered(gold),
        }
        with suppress(BrokenPipeError):
            self._child.stdin.write(json.dumps(job).encode() + b"\n")
            self._child.stdin.flush()
        line = self._child.stdout.readline()
        if line:
            return SqlOutcome(*json.loads(line))
        if self._child.wait() > 0:  # not a signal: it does not run at all
            raise UserError(
                f"the process that runs SQL does not start; to see why, run {' '.join(_COMMAND)}"
            )
        self._stop()
        return SqlOutcome("cut", "killed: over its time or memory")

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            with suppress(BrokenPipeError):
                self._child.communicate()
        self._child = None


def _check_whole(database: str | os.PathLike[str]) -> None:
    """Raise a UserError for a database whose last changes are still in its journal file.

    Opened as immutable, it would be read without them.
    """
    for ending, magic in (("-wal", b""), ("-journal", _HOT_JOURNAL)):
        with suppress(FileNotFoundError), open(f"{os.fspath(database)}{ending}", "rb") as journal:
            start = journal.read(len(_HOT_JOURNAL))
            if start and start.startswith(magic):
                raise UserError(
                    f"{journal.name} holds changes that are not in the database yet: close the "
                    "program that has it open, or run "
                    f'sqlite3 {os.fspath(database)} "PRAGMA wal_checkpoint(TRUNCATE)"'
                )


class SqlExecution(Metric):
    """Execution accuracy; each example's `fields["database"]` is the path of its SQLite file."""

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            path = example.fields.get("database", "")
            if not Path(path).is_file():
                raise UserError(
                    f"example {example.id!r}: no database {example.fields.get('db_id', path)!r}, "
                    f"no file {path!r}; execution accuracy needs the path of an SQLite file in the "
                    "column 'database', relative to the data file; the papers' tasks have them "
                    "under data_dir/<task>/database/"
                )
            with open(path, "rb") as database:
                beginning = database.read(len(_SQLITE))
            if beginning != _SQLITE:
                raise UserError(
                    f"example {example.id!r}: {path} is not a SQLite database: it begins with "
                    f"{beginning!r}; it may be packed, a script of SQL, or a Git LFS pointer"
                )
            _check_whole(path)

    def per_example(self, predictions: Sequence[str], examples: Sequence[Example]) -> np.ndarray:
        self.check(examples)
        with SqlSandbox() as sandbox:
            outcomes = [
                sandbox.compare(example.fields["database"], example.output, prediction)
                for prediction, example in zip(predictions, examples, strict=True)
            ]
        pairs = zip(examples, outcomes, strict=True)
        failed = [
            f"{query.id} ({outcome.detail})"
            for query, outcome in pairs
            if outcome.outcome == "gold failed"
        ]
        if failed:
            listed = ", ".join(failed[:5])
            log.warning("%d gold queries do not run and count as wrong: %s", len(failed), listed)
        return np.array([outcome.right for outcome in outcomes], np.float64)
