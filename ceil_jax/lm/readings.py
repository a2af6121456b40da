"""The stored readings of language models, by the content of their requests.

One SQLite file serves all stages of a folder of runs. A reading is the answer to a request: (LM,
prompt, choices) → log-probabilities, or (LM, prompt, settings of generation) → text, with the
tokens and seconds that it took. Shards write files of their own beside it
(`readings-3-of-16.sqlite`), which are copied into it when it is next opened.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from ceil_jax.lm.readings_file import ReadingsFile, Row, checksum
from ceil_jax.lm.request import LMRequest, Reading
from ceil_jax.store.cost import Cost
from ceil_jax.store.locking import disk_errors
from ceil_jax.store.shards import Shard

__all__ = ["FILE", "LMRequest", "Reading", "Readings"]
# whoever opens the store makes requests, whose keys it is asked by

log = logging.getLogger(__name__)

FILE = "readings.sqlite"

_SHARDS = "readings-*.sqlite"
"""The pattern of the names of shards' files."""


class Readings:
    """The stored readings of a folder of runs, by the key of their request. New ones are written
    into the shard's file, if there is a shard.

    A damaged file is set aside with a warning, and begun anew (`readings_file`).

    Raises:
        UserError: from every method, if the disk is full, or a file cannot be read or written.
    """

    def __init__(self, folder: Path, shard: Shard | None = None) -> None:
        self._folder = folder
        self._shard = shard
        self._shared = ReadingsFile(folder / FILE)
        self._target = ReadingsFile(folder / shard.file) if shard else self._shared
        self._is_ready = False

    @property
    def shards(self) -> bool:
        """Whether shards have left files of readings."""
        return any(self._folder.glob(_SHARDS))

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Reading]:
        """Return the stored readings among some keys, by key."""
        readings: dict[bytes, Reading] = {}
        if not (self.shards or self._shared.path.exists()):
            return readings
        files = [self._file_for_new]
        if self._shard and self._shared.path.exists():
            files.append(self._shared)
        for file in files:
            for row in file.find(keys):
                if row.is_whole:
                    readings[row.key] = Reading(
                        json.loads(row.value), Cost(row.seconds, row.tokens)
                    )
                else:
                    log.warning("%s: a damaged reading; reading that prompt again", file.path)
        return readings

    def keep(self, readings: Mapping[bytes, Reading]) -> None:
        """Store readings by key. They are on the disk when this returns."""
        rows = []
        for key, (value, cost) in readings.items():
            content = key, json.dumps(value), cost.tokens, float(cost.seconds)
            rows.append(Row(*content, checksum(*content)))
        with disk_errors(self._folder):
            self._file_for_new.add(rows, replace=True)

    @property
    def _file_for_new(self) -> ReadingsFile:
        """The file for new readings. If it is the shared one, the readings of shards are first
        copied into it."""
        if not self._is_ready:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._target.prepare()
            if self._shard is None:
                for path in sorted(self._folder.glob(_SHARDS)):
                    for rows in ReadingsFile(path).whole_rows():
                        self._target.add(rows, replace=False)
            self._is_ready = True
        return self._target
