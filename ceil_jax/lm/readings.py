"""The cache of language models' outputs (readings), by the content of their requests.

One SQLite file serves all stages of a folder of runs. A reading is the answer to a request: (LM,
prompt, choices) → log-probabilities, or (LM, prompt, settings of generation) → text, with the
tokens and seconds that it took. Files in the same folder that are called `readings-NAME.sqlite`,
such as one that was saved from a damaged file, are copied into it when it is opened.
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

__all__ = ["FILE", "LMRequest", "Reading", "Readings"]
# whoever opens the store makes requests, whose keys it is asked by

log = logging.getLogger(__name__)

FILE = "readings.sqlite"

_BESIDE = "readings-*.sqlite"
"""Pattern for the names of other files of readings in the folder, whose content is copied."""


class Readings:
    """The stored readings of a folder of runs, by the key of their request.

    A damaged file is set aside with a warning, and begun anew (`readings_file`).

    Raises:
        UserError: from every method, if the disk is full, or a file cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = ReadingsFile(folder / FILE)
        self._is_ready = False

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Reading]:
        """Return the stored readings among some keys, by key."""
        readings: dict[bytes, Reading] = {}
        if not (self._file.path.exists() or any(self._folder.glob(_BESIDE))):
            return readings
        for row in self._prepared().find(keys):
            if row.is_whole:
                readings[row.key] = Reading(json.loads(row.value), Cost(row.seconds, row.tokens))
            else:
                log.warning(
                    "%s: a cached LM output is damaged; the LM reads that prompt again",
                    self._file.path,
                )
        return readings

    def keep(self, readings: Mapping[bytes, Reading]) -> None:
        """Store readings by key. They are on the disk when this returns."""
        rows = []
        for key, (value, cost) in readings.items():
            content = key, json.dumps(value), cost.tokens, float(cost.seconds)
            rows.append(Row(*content, checksum(*content)))
        with disk_errors(self._folder):
            self._prepared().add(rows, replace=True)

    def _prepared(self) -> ReadingsFile:
        """Return the file, into which other files of readings in the folder have been copied."""
        if not self._is_ready:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file.prepare()
            for path in sorted(self._folder.glob(_BESIDE)):
                for rows in ReadingsFile(path).whole_rows():
                    self._file.add(rows, replace=False)
            self._is_ready = True
        return self._file
