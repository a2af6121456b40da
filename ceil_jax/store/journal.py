"""Append-only JSON lines, each with its checksum: a killed process leaves whole lines behind, or one torn."""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


class Journal:
    """A file's lines by the value of one of their fields; the first of equals counts.

    Every line begins with the CRC-32 of its text. Damaged lines are not read, which is said, and are gone from
    the file at the next `append`: reading alone changes nothing.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key
        self.lines: dict[Hashable, dict[str, Any]] = {}
        self._kept: list[bytes] | None = None
        if not path.exists():
            return
        kept: list[bytes] = []
        damaged = 0
        for raw in path.read_bytes().splitlines(keepends=True):
            line = _checked(raw)
            if line is None:
                damaged += 1
            elif line[key] not in self.lines:
                self.lines[line[key]] = line
                kept.append(raw)
        if damaged:
            log.warning("%s: %d damaged or half-written chunk(s); computing them again", path, damaged)
            self._kept = kept

    def append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """All of them are on the disk when this returns."""
        if self._kept is not None:
            beside = self.path.with_name(self.path.name + ".part")
            beside.write_bytes(b"".join(self._kept))
            beside.replace(self.path)
            self._kept = None
        bodies = [json.dumps(line, separators=(",", ":")) for line in lines]
        with self.path.open("ab") as out:
            out.writelines(f"{zlib.crc32(body.encode()):08x} {body}\n".encode() for body in bodies)
            out.flush()
            os.fsync(out.fileno())
        # what a resumed process would read, not what this one holds: the two must never differ
        for line in map(json.loads, bodies):
            self.lines[line[self.key]] = line


def read_lines(path: Path, key: str) -> dict[Hashable, dict[str, Any]]:
    """The whole lines of a journal that another process may be writing."""
    if not path.exists():
        return {}
    lines = (_checked(raw) for raw in path.read_bytes().splitlines(keepends=True))
    found: dict[Hashable, dict[str, Any]] = {}
    for line in lines:
        if line is not None:
            found.setdefault(line[key], line)
    return found


def _checked(raw: bytes) -> dict[str, Any] | None:
    checksum, _, body = raw.partition(b" ")
    if not raw.endswith(b"\n") or checksum != f"{zlib.crc32(body[:-1]):08x}".encode():
        return None
    return json.loads(body)
