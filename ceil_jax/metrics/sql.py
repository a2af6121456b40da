"""Execution accuracy of SQL: a prediction is right when it gives the same result as the gold query."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics.base import Metric
from ceil_jax.tasks.example import Example

log = logging.getLogger(__name__)

KILLED = "killed from outside"

_FROM_OUTSIDE = {
    int(getattr(signal, name)) for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
}
"""Signals that a query cannot cause by itself: its own limits end in SIGALRM or an exception. Windows lacks some."""

_HOT_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""The first bytes of a rollback journal that has not been rolled back or committed."""


@dataclass(frozen=True)
class SqlLimits:
    """The resources that a query may use. A prediction that needs more is cut and counts as wrong."""

    seconds: float = 1.5
    """Time limit of a predicted query; or twice what the gold query took, where that is more."""
    gold_seconds: float = 30.0
    """Time limit of the gold query, which may be slow but not endless."""
    rows: int = 100_000
    """Maximum number of rows of a result."""
    sql_bytes: int = 20_000
    """Maximum length of a predicted query in bytes; the gold query may have ten times as many."""
    memory: int = 2**30
    """Address space of the child process, in bytes."""


@dataclass(frozen=True)
class SqlOutcome:
    """The outcome of a prediction: equal, different, error, cut, gold failed, or killed from outside."""

    outcome: str
    detail: str = ""

    @property
    def right(self) -> bool:
        return self.outcome == "equal"


class SqlSandbox:
    """A child process that runs queries on read-only databases; `with SqlSandbox() as sandbox`.

    The child is replaced when a query gets past its own limits (a single slow operation, memory): its alarm ends it.
    """

    def __init__(self, limits: SqlLimits | None = None) -> None:
        self.limits = limits or SqlLimits()
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> SqlSandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def compare(self, database: str | os.PathLike[str], gold: str, predicted: str) -> SqlOutcome:
        """Run two queries on a database and compare their results as the Spider evaluation does.

        Results are multisets of rows up to a permutation of columns; rows in order where the gold query has
        ORDER BY; values equal as Python's are (1 and 1.0, not 1 and "1"); two empty results are equal.
        DISTINCT is kept: the test-suite evaluation strips it from both by default. As there, `> =` is read as
        `>=` and YEAR(CURDATE()) as 2020. A prediction that is the gold query to the letter is not run again.
        A child that is killed from outside is started again, once.

        Args:
            database: an SQLite file; it is opened read-only.
            gold: the query whose result is right.
            predicted: the query to judge.

        Raises:
            UserError: the database has rows in a journal beside it, or this is no POSIX system.
        """
        _check_whole(database)
        job = {**asdict(self.limits), "database": os.fspath(database), "gold": gold, "predicted": predicted}
        line = json.dumps(job).encode() + b"\n"
        outcome = self._asked(line)
        if outcome.outcome == KILLED:
            # by whoever kills processes here, the system when memory is short for example: not the query's doing
            outcome = self._asked(line)
        if outcome.outcome == KILLED:
            log.warning(
                "the process that runs SQL was killed from outside, twice (%s); the query counts as wrong: %s",
                outcome.detail,
                predicted[:80],
            )
        return outcome

    def _asked(self, job: bytes) -> SqlOutcome:
        """Run a job once."""
        found = "gold failed"
        with suppress(BrokenPipeError):
            self._send(job)
            while isinstance(answer := self._line(), str):
                found = "cut"
            if answer is not None:
                return SqlOutcome(*answer)
        return self._ended(found)

    def _send(self, line: bytes) -> None:
        if self._child is None or self._child.poll() is not None:
            self._start()
        assert self._child is not None and self._child.stdin is not None
        self._child.stdin.write(line)
        self._child.stdin.flush()

    def _start(self) -> None:
        self._stop()
        if os.name != "posix":
            raise UserError(
                "SQL runs in a sandbox that needs a POSIX system: Linux, macOS, or WSL on Windows"
            )
        worker = Path(__file__).with_name("sql_worker.py")
        command = [sys.executable, "-I", "-S", str(worker), str(self.limits.memory)]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        if self._line() != "ready":
            self._stop()
            raise UserError(f"the process that runs SQL does not start: try {' '.join(command)}")

    def _line(self) -> Any:
        """Return what the child says next; None when it has died."""
        assert self._child is not None and self._child.stdout is not None
        line = self._child.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def _ended(self, outcome: str) -> SqlOutcome:
        """The outcome where no answer came: the child was over its limits, or was killed from outside."""
        assert self._child is not None
        code = self._child.wait()
        self._stop()
        if -code in _FROM_OUTSIDE:
            return SqlOutcome(KILLED, f"signal {signal.Signals(-code).name}")
        return SqlOutcome(outcome, "killed: over its time or memory")

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            with suppress(BrokenPipeError):
                self._child.communicate()
        self._child = None


def _check_whole(database: str | os.PathLike[str]) -> None:
    """Refuse a database whose last changes lie in a file beside it: read-only and immutable, it would miss them."""
    for ending, magic in (("-wal", b""), ("-journal", _HOT_JOURNAL)):
        with suppress(FileNotFoundError), open(f"{os.fspath(database)}{ending}", "rb") as journal:
            start = journal.read(len(_HOT_JOURNAL))
            if start and start.startswith(magic):
                raise UserError(
                    f"{journal.name} holds changes that are not in the database yet: close what has it open, or run "
                    f'sqlite3 {os.fspath(database)} "PRAGMA wal_checkpoint(TRUNCATE)"'
                )


class SqlExecution(Metric):
    """Execution accuracy; each example's `fields["database"]` is the path of its SQLite file."""

    name = "sql_execution"

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            path = example.fields.get("database", "")
            if not Path(path).is_file():
                raise UserError(
                    f"example {example.id!r}: no database {example.fields.get('db_id', path)!r}, no file {path!r}; "
                    "execution accuracy needs the path of an SQLite file in the column 'database', relative to the "
                    "data file; the papers' tasks have them under data_dir/<task>/database/"
                )
            _check_whole(path)

    def outcomes(self, predictions: Sequence[str], examples: Sequence[Example]) -> list[SqlOutcome]:
        """Return what became of each prediction.

        Args:
            predictions: one query an example.
            examples: each with its gold query as output and the path of its SQLite file in `fields["database"]`.

        Raises:
            UserError: an example without a database file.
        """
        self.check(examples)
        with SqlSandbox() as sandbox:
            found = [
                sandbox.compare(example.fields["database"], example.output, prediction)
                for prediction, example in zip(predictions, examples, strict=True)
            ]
        failed = [
            f"{example.id} ({outcome.detail})"
            for example, outcome in zip(examples, found, strict=True)
            if outcome.outcome == "gold failed"
        ]
        if failed:
            log.warning(
                "%d gold queries do not run and count as wrong: %s", len(failed), ", ".join(failed[:5])
            )
        return found

    def per_example(self, predictions: Sequence[str], examples: Sequence[Example]) -> np.ndarray:
        return np.array([outcome.right for outcome in self.outcomes(predictions, examples)], np.float64)
