"""Execution accuracy of SQL: a prediction is right when its result is the gold query's."""

from __future__ import annotations

import json
import logging
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics.base import Metric
from ceil_jax.tasks.example import Example

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SqlLimits:
    """What a predicted query may use before it is cut and counts as wrong."""

    seconds: float = 1.5
    """Or twice what the gold query took, where that is more."""
    gold_seconds: float = 30.0
    """The gold query is trusted to be slow, not to be endless."""
    rows: int = 100_000
    sql_bytes: int = 20_000
    memory: int = 2**30
    """Address space of the child process."""


@dataclass(frozen=True)
class SqlOutcome:
    """What became of a prediction: equal, different, error, cut, or gold failed."""

    outcome: str
    detail: str = ""

    @property
    def right(self) -> bool:
        return self.outcome == "equal"


class SqlSandbox:
    """A child process that runs queries on read-only databases; `with SqlSandbox() as sandbox`.

    The child is replaced when a query gets past its own limits (a single slow operation, memory): the parent
    kills it `GRACE` seconds after the prediction's time is up.
    """

    GRACE = 0.4
    START_SECONDS = 30.0

    def __init__(self, limits: SqlLimits | None = None) -> None:
        self.limits = limits or SqlLimits()
        self._child: subprocess.Popen[bytes] | None = None
        self._read = b""

    def __enter__(self) -> SqlSandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def compare(self, database: str | os.PathLike[str], gold: str, predicted: str) -> SqlOutcome:
        """Run both on the database; equal as the Spider evaluation has it.

        Results are multisets of rows up to a permutation of columns; rows in order where the gold query has
        ORDER BY; values equal as Python's are (1 and 1.0, not 1 and "1"); two empty results are equal.
        DISTINCT is kept: the test-suite evaluation strips it from both by default. As there, `> =` is read as
        `>=`. A prediction that is the gold query to the letter is not run again.
        """
        job = {
            "database": os.fspath(database),
            "gold": gold,
            "predicted": predicted,
            **{name: getattr(self.limits, name) for name in ("seconds", "gold_seconds", "rows", "sql_bytes")},
        }
        self._send(json.dumps(job).encode() + b"\n")
        seconds = self._line(self.limits.gold_seconds + self.GRACE)
        if seconds is None:
            return self._killed("gold failed")
        answer = self._line(seconds + self.GRACE)
        return self._killed("cut") if answer is None else SqlOutcome(*answer)

    def _send(self, line: bytes) -> None:
        if self._child is None or self._child.poll() is not None:
            self._start()
        assert self._child is not None and self._child.stdin is not None
        self._child.stdin.write(line)
        self._child.stdin.flush()

    def _start(self) -> None:
        self._stop()
        worker = Path(__file__).with_name("sql_worker.py")
        command = [sys.executable, "-I", "-S", str(worker), str(self.limits.memory)]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        if self._line(self.START_SECONDS) != "ready":
            self._stop()
            raise UserError(
                f"the process that runs SQL does not start: try {' '.join(command)}; it needs Linux or macOS"
            )

    def _line(self, seconds: float) -> Any:
        """The child's next line; None when the time is up or the child has died."""
        assert self._child is not None and self._child.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while b"\n" not in self._read:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return None
                piece = os.read(self._child.stdout.fileno(), 65_536)
                if not piece:
                    return None
                self._read += piece
        line, self._read = self._read.split(b"\n", 1)
        return json.loads(line)

    def _killed(self, outcome: str) -> SqlOutcome:
        self._stop()
        return SqlOutcome(outcome, "killed: over its time or memory")

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    pipe.close()
        self._child, self._read = None, b""


class SqlExecution(Metric):
    """Execution accuracy; each example's `fields["database"]` is the path of its SQLite file."""

    name = "sql_execution"

    def __init__(self, limits: SqlLimits | None = None) -> None:
        self.limits = limits or SqlLimits()

    def outcomes(self, predictions: Sequence[str], examples: Sequence[Example]) -> list[SqlOutcome]:
        """What became of each, for a table.

        Raises:
            UserError: an example without a database file.
        """
        for example in examples:
            if not Path(example.fields.get("database", "")).is_file():
                raise UserError(
                    f"example {example.id!r}: no database {example.fields.get('db_id', '')!r}; execution "
                    "accuracy needs its .sqlite file under data_dir/<task>/database/"
                )
        with SqlSandbox(self.limits) as sandbox:
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
