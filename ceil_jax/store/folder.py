"""A folder that is marked as finished by its last file, which lists its files with their checksums.

```
runs/scores-3f9a0c…/   key.json     what the folder depends on; its digest is in the folder's name
                       …            files
                       scratch/     checkpoints of unfinished work
                       done.json    written last: a summary, the folder's name, the sha256 of
                                    each file
runs/damaged/…         finished folders in which damage was found, as they were
```
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.store.hashing import digest, file_hashes, file_sha256, text_digest
from ceil_jax.store.locking import PART, appearing, held, move_aside, write

log = logging.getLogger(__name__)

KEY = "key.json"
DONE = "done.json"
SCRATCH = "scratch"

DAMAGED = "damaged"
"""The folder that damaged folders are moved to, next to the finished ones."""

_checked: dict[Path, int] = {}
"""Folders whose checksums this process has verified → when done.json was last changed."""


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the summary of a finished folder.

    None if it is unfinished, or a file in it is damaged.

    The first time in a process, files are compared with their checksums, and the key with the
    folder's name. The folder need not exist.
    """
    marker = folder / DONE
    try:
        if not marker.is_file():  # a pipe would be waited for
            return None
        record = json.loads(marker.read_bytes())
        changed = marker.stat().st_mtime_ns
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):  # the last for JSON that is nested too deeply
        record = None
        changed = -1
    if _checked.get(folder) != changed:
        if damaged := _damaged(folder, record):
            log.warning("%s is damaged; computing %s again", damaged, folder.name)
            return None
        _checked[folder] = changed
    return record["summary"]


def _damaged(folder: Path, record: Any) -> Path | None:
    """Return the first file that is missing, changed, or of another folder; None if there is none."""
    try:
        content = [record["name"], record["summary"], record["files"]]
        if record["name"] != folder.name or record["checksum"] != digest(content):
            return folder / DONE
        if read_key(folder) is None:
            return folder / KEY
        for name, sha256 in record["files"].items():
            if not (folder / name).is_file() or file_sha256(folder / name) != sha256:
                return folder / name
    except (KeyError, TypeError):
        return folder / DONE
    return None


def complete(folder: Path, content: str, fill: Callable[[], Mapping[str, Any]]) -> None:
    """Fill a folder, unless it is finished; other processes wait until it is.

    What is found of a damaged folder is moved to a folder under `damaged`, with a warning. If the
    process is killed, the folder is unfinished, and keeps its files for the next one.

    Args:
        folder: its name ends with the digest of `content`.
        content: what the folder depends on, as canonical JSON, which `read_key` reads.
        fill: writes the files, and returns the summary that `finished` then returns.

    Raises:
        UserError: the folder cannot be written or locked.
    """
    with held(folder):
        if finished(folder) is not None:
            return
        if (folder / DONE).exists():
            aside = move_aside(folder, folder.parent / DAMAGED)
            log.warning("its remains were moved to %s", aside)
        write(folder / KEY, f"{content}\n".encode())
        finish(folder, fill())


def read_key(folder: Path) -> dict[str, Any] | None:
    """Return the values that a folder's content depends on.

    None if the file that says so is missing, damaged, or of another folder.
    """
    file = folder / KEY
    try:
        content = file.read_bytes() if file.is_file() else b""
    except OSError:
        return None
    # a folder's name ends with the digest of its key
    expected = folder.name.rpartition("-")[2]
    if text_digest(content.removesuffix(b"\n")) != expected:
        return None
    return json.loads(content)


def finish(folder: Path, summary: Mapping[str, Any]) -> None:
    """Mark a folder as finished, with a summary of JSON values.

    Its scratch folder and half-written files of killed processes are removed. The caller must hold
    the folder.
    """
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)
    for half_written in folder.rglob(f"*{PART}"):
        half_written.unlink(missing_ok=True)
    files = {
        name: sha256
        for name, sha256 in file_hashes(folder).items()
        if name not in (KEY, DONE) and not name.endswith(".lock")
    }
    # as the summary will be read back, with strings as keys
    plain = json.loads(json.dumps(dict(summary)))
    record = {"name": folder.name, "summary": plain, "files": files}
    record["checksum"] = digest(list(record.values()))
    write(folder / DONE, (json.dumps(record, indent=1) + "\n").encode())


def write_json(file: Path, value: Any) -> None:
    """Write a JSON value, completely or not at all. NumPy's numbers are refused."""
    write(file, json.dumps(value, ensure_ascii=False).encode())


def read_json(file: Path) -> Any:
    """Return the JSON value in a file."""
    return json.loads(file.read_bytes())


def save_arrays(file: Path, **arrays: np.ndarray) -> None:
    """Write arrays by name as one `.npz`, completely or not at all."""
    with appearing(file) as out:
        np.savez(out, **arrays)  # type: ignore[arg-type]


def load_arrays(file: Path) -> dict[str, np.ndarray]:
    """Return the arrays in an `.npz` file, by name."""
    with np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
