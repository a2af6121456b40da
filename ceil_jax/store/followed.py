"""A stage as the processes of a job that do not lead it see it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ceil_jax.store.journal import read_lines
from ceil_jax.store.rows import Rows
from ceil_jax.store.stage import Stage


class FollowedStage(Stage):
    """A stage as the processes that do not lead see it: they write nothing and wait for what they read."""

    leads = False

    @property
    def summary(self) -> dict[str, Any] | None:
        return self.peek()

    def write(self, file: str, content: bytes) -> None:
        pass

    def save(self, file: str, array: np.ndarray) -> None:
        pass

    def load(self, file: str) -> np.ndarray:
        self._wait(lambda: (self.folder / file).exists())
        return super().load(file)

    def finish(self, summary: Mapping[str, Any], files: tuple[str, ...] = ()) -> dict[str, Any]:
        """The leader's summary."""
        self._wait(lambda: self.summary is not None)
        found = self.summary
        assert found is not None
        return found

    def rows(self, total: int, work: Any, *, chunk: int, **_: Any) -> Rows:
        lines = self._lines("rows.jsonl", "start", range(0, total, chunk))
        return Rows([row for line in lines for row in line["rows"]], lines)

    def keyed_rows(self, keys: Sequence[str], work: Any, **_: Any) -> Rows:
        asked = list(dict.fromkeys(keys))
        lines = self._lines("keyed_rows.jsonl", "key", asked)
        row = {line["key"]: line["row"] for line in lines}
        return Rows([row[key] for key in keys], lines)

    def _lines(self, file: str, key: str, wanted: Sequence[Any]) -> list[Mapping[str, Any]]:
        found: dict[Any, Mapping[str, Any]] = {}

        def complete() -> bool:
            found.update(read_lines(self.folder / file, key))
            return all(place in found for place in wanted)

        self._wait(complete)
        return [found[place] for place in wanted]

    @staticmethod
    def _wait(ready: Callable[[], bool]) -> None:
        while not ready():
            time.sleep(0.5)
