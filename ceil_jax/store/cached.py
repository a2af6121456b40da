"""Folders of the cache that are made once: whether their files are still what was written.

`NAME.sha256.json` beside the folder NAME has the size, the time of the last change and the sha256 of each file. When
a process first uses the folder, files of up to 100 MB are read and compared, larger ones if size or time has changed.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from ceil_jax.store.hashing import digest, file_sha256
from ceil_jax.store.locking import appearing

log = logging.getLogger(__name__)

ALWAYS_READ = 100_000_000
"""Bytes: larger files would take seconds at each start."""

_found_whole: set[tuple[Path, str]] = set()
"""Folders that this process has compared, with the state of their files."""


def whole(folder: Path) -> bool:
    """Return whether a folder's files are what they were when it was made.

    A folder that an older version made is taken as it is, once, which is said.

    Args:
        folder: one that `remember` was called for.
    """
    state = _state(folder)
    if (folder, digest(state)) in _found_whole:
        return True
    memo = _memo(folder)
    if not memo.exists():
        log.info("%s was cached by an older version: taken as it is, and checked from now on", folder)
        try:
            remember(folder, folder)
        except OSError as error:
            log.warning("%s cannot be checked: %s", folder, error)
            return True
    try:
        saved = json.loads(memo.read_bytes())
        same = saved["checksum"] == digest(saved["files"]) and saved["files"].keys() == state.keys()
    except (ValueError, KeyError, TypeError, AttributeError):
        same = False
    for name, (size, time) in state.items() if same else ():
        then_size, then_time, sha256 = saved["files"][name]
        if size != then_size:
            return False
        if (size <= ALWAYS_READ or time != then_time) and file_sha256(folder / name) != sha256:
            return False
    if same:
        _found_whole.add((folder, digest(state)))
    return same


def remember(folder: Path, place: Path) -> None:
    """Write down the hashes of a folder's files.

    Args:
        folder: where the files are now.
        place: where the folder will be; what is written lies beside that.

    Raises:
        OSError: it cannot be written.
    """
    files = {name: [*state, file_sha256(folder / name)] for name, state in _state(folder).items()}
    with appearing(_memo(place), f".part-{os.getpid()}") as out:
        out.write(json.dumps({"files": files, "checksum": digest(files)}).encode())


def _memo(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.sha256.json")


def _state(folder: Path) -> dict[str, tuple[int, int]]:
    """Relative path -> (size, time of the last change) of each file."""
    files = {file.relative_to(folder).as_posix(): file.stat() for file in folder.rglob("*") if file.is_file()}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in sorted(files.items())}
