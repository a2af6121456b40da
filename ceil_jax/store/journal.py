"""Append-only JSON lines, each with its checksum. A killed process leaves whole lines, at most one torn."""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ceil_jax.store.locking import appearing

log = logging.getLogger(__name__)

Accept = Callable[[Mapping[str, Any]], bool]
"""Whether a whole line belongs into the journal."""


def _any_line(_: Mapping[str, Any]) -> bool:
    return True


class Journal:
    """The lines of a file by the value of one of their fields. Of lines with the same value the first one counts.

    Every line begins with the CRC-32 of its text. A line that is damaged or not accepted is not read; a warning says
    so, and the next `append` removes it from the file. Reading alone changes nothing on disk.

    Args:
        path: the file; it need not exist yet.
        key: the field by which lines are known.
        accept: which lines belong here; all by default.
        quiet: say nothing of lines that are not read, as where another process may be writing.
    """

    def __init__(self, path: Path, key: str, accept: Accept = _any_line, *, quiet: bool = False) -> None:
        self.path, self.key = path, key
        self.lines: dict[Hashable, dict[str, Any]] = {}
        self._kept: list[bytes] | None = None
        kept: list[bytes] = []
        damaged = foreign = 0
        for raw, line in _raw_lines(path):
            if line is None:
                damaged += 1
            elif key not in line or not accept(line):
                foreign += 1
            elif line[key] not in self.lines:
                self.lines[line[key]] = line
                kept.append(raw)
        if damaged and not quiet:
            log.warning("%s: %d damaged or half-written chunk(s); computing them again", path, damaged)
        if foreign and not quiet:
            log.warning(
                "%s: %d chunk(s) of another stage or of another length; computing them again", path, foreign
            )
        if damaged or foreign:
            self._kept = kept

    def append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Add lines; they are on the disk when this returns.

        Args:
            lines: JSON objects with the journal's key among their fields.
        """
        if self._kept is not None:
            with appearing(self.path) as out:
                out.writelines(self._kept)
            self._kept = None
        bodies = [json.dumps(line, separators=(",", ":")) for line in lines]
        with self.path.open("ab") as out:
            out.writelines(f"{zlib.crc32(body.encode()):08x} {body}\n".encode() for body in bodies)
            out.flush()
            os.fsync(out.fileno())
        # hold what a resumed process would read, so that the two can never differ
        for line in map(json.loads, bodies):
            self.lines[line[self.key]] = line


def read_lines(path: Path, key: str, accept: Accept = _any_line) -> dict[Hashable, dict[str, Any]]:
    """Return the whole lines of a journal that another process may be writing, by the value of one field.

    Args:
        path: the file; no lines if it does not exist.
        key: the field by which lines are known.
        accept: which lines belong here; all by default.
    """
    return Journal(path, key, accept, quiet=True).lines


def _raw_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Each line's bytes and what it says, None where its checksum is not that of its text."""
    if not path.exists():
        return
    for raw in path.read_bytes().splitlines(keepends=True):
        yield raw, json.loads(raw.partition(b" ")[2]) if whole_line(raw) else None


def whole_line(raw: bytes) -> bool:
    """Return whether a journal's line is complete and its checksum is that of its text."""
    checksum, _, body = raw.partition(b" ")
    return raw.endswith(b"\n") and checksum == f"{zlib.crc32(body[:-1]):08x}".encode()
