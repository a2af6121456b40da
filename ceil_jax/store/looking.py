"""A store that only looks, for dry runs: stages on disk are read, none is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ceil_jax.store.hashing import digest
from ceil_jax.store.rows import Rows
from ceil_jax.store.shards import Shard
from ceil_jax.store.stage import Stage
from ceil_jax.store.store import Store

_SAMPLES = 3
"""Chunks of a stage whose work is done to estimate all."""


class LookingStore(Store):
    """Stages as they are on disk.

    Args:
        root: the folder, which need not be there.
        note: (stage, what it does, amounts of work by name) is called for every stage that is asked for; the amount
            is `done=True` for a stage on disk.
        spent: gives the amounts of work done so far by name. The difference over a sample of a stage's rows is scaled
            to all that are missing.
    """

    def __init__(
        self, root: Path, note: Callable[..., None], spent: Callable[[], Mapping[str, float]]
    ) -> None:
        super().__init__(root)
        self.note, self.spent = note, spent

    @contextmanager
    def stage(self, kind: str, key: Mapping[str, Any], shard: Shard | None = None) -> Iterator[Stage]:
        """Yield the stage, which may not be there."""
        yield LookingStage(self.root / f"{kind}-{digest(key)}", self)


class LookingStage(Stage):
    """A stage whose rows are read if they are all there, and otherwise guessed from a sample."""

    def __init__(self, folder: Path, store: LookingStore) -> None:
        super().__init__(folder)
        self.store = store

    @property
    def summary(self) -> dict[str, Any] | None:
        """The summary of a finished stage; nothing on disk changes."""
        return self.peek()

    def rows(
        self, total: int, work: Callable[[int, int], list[Any]], *, chunk: int, what: str, **_: Any
    ) -> Rows:
        """Return the rows on disk, or the rows of a sample, repeated."""
        missing = self.missing_rows(total, chunk)
        if not missing:
            self.store.note(self, what, done=True)
            return super().rows(total, work, chunk=chunk, what=what)
        spread = missing[:: max(1, len(missing) // _SAMPLES)][:_SAMPLES]

        def sample() -> list[Any]:
            return [row for start in spread for row in work(start, min(start + chunk, total))]

        rows = self._sampled(sample, min(len(missing) * chunk, total), what)
        return Rows([rows[i % len(rows)] for i in range(total)], [])

    def keyed_rows(
        self, keys: Sequence[str], work: Callable[[list[str]], list[Any]], *, chunk: int, what: str, **_: Any
    ) -> Rows:
        """Return the rows on disk, or one row for all."""
        missing = self.missing_keys(keys)
        if not missing:
            self.store.note(self, what, done=True)
            return super().keyed_rows(keys, work, chunk=chunk, what=what)
        spread = missing[:: max(1, len(missing) // chunk)][:chunk]
        rows = self._sampled(lambda: work(spread), len(missing), what)
        return Rows([rows[0] for _ in keys], [])

    def _sampled(self, sample: Callable[[], list[Any]], total: int, what: str) -> list[Any]:
        """Note a stage of `total` rows by what some of them take, and return these."""
        before = self.store.spent()
        rows = sample()
        after = self.store.spent()
        self.store.note(
            self, what, **{name: (after[name] - before.get(name, 0)) * total / len(rows) for name in after}
        )
        return rows
