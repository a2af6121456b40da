"""A stage as those processes of a job see it that do not write: they wait for what they read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ceil_jax.store.journal import Accept, read_lines
from ceil_jax.store.rows import Rows
from ceil_jax.store.stage import KEYED_ROWS, ROWS, Stage


class FollowedStage(Stage):
    """A stage that another process of the job writes."""

    leads = False

    @property
    def summary(self) -> dict[str, Any] | None:
        return self.peek()

    def write(self, file: str, content: bytes, *, part: str = ".part") -> None:
        """Do nothing: the leader writes the file."""

    def save(self, file: str, array: np.ndarray) -> None:
        """Do nothing: the leader writes the file."""

    def load(self, file: str) -> np.ndarray:
        """Wait for the file, then return its array, memory-mapped."""
        _wait(lambda: (self.folder / file).exists())
        return super().load(file)

    def finish(self, summary: Mapping[str, Any], files: tuple[str, ...] = ()) -> dict[str, Any]:
        """Wait until the leader has finished the stage, then return its summary."""
        _wait(lambda: self.summary is not None)
        found = self.summary
        assert found is not None
        return found

    def rows(self, total: int, work: Any, *, chunk: int, **_: Any) -> Rows:
        """Wait for all rows, then return them."""
        lines = self._lines(ROWS, "start", range(0, total, chunk), self.accepts(total, chunk))
        return Rows([row for line in lines for row in line["rows"]], lines)

    def keyed_rows(self, keys: Sequence[str], work: Any, **_: Any) -> Rows:
        """Wait for the rows of all keys, then return them."""
        asked = list(dict.fromkeys(keys))
        lines = self._lines(KEYED_ROWS, "key", asked, self.owns)
        row = {line["key"]: line["row"] for line in lines}
        return Rows([row[key] for key in keys], lines)

    def _lines(self, file: str, key: str, wanted: Sequence[Any], accept: Accept) -> list[Mapping[str, Any]]:
        found: dict[Any, Mapping[str, Any]] = {}

        def complete() -> bool:
            found.update(read_lines(self.folder / file, key, accept))
            return all(place in found for place in wanted)

        _wait(complete)
        return [found[place] for place in wanted]


def _wait(ready: Callable[[], bool]) -> None:
    while not ready():
        time.sleep(0.5)
