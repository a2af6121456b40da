"""Locks on folders, files that are written completely or not at all, and errors of a full disk."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from ceil_jax.errors import UserError

log = logging.getLogger(__name__)

PART = ".part"
"""The ending of files that are being written: NAME.PID.part."""

_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOTDIR, errno.EEXIST}
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
"""Messages of the system for a full disk, which C++ and Rust libraries repeat in their own
exceptions."""


@contextmanager
def held(folder: Path, name: str = ".lock") -> Iterator[None]:
    """Create a folder if needed, and lock it for this process until the block ends.

    Other processes wait, and log that they do.

    Use different lock names to lock parts of the folder separately. A UserError for a full disk, a
    folder that cannot be created or written, or a file system that refuses locks.
    """
    lock = FileLock(folder / name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            acquired = lock.acquire(timeout=0)
        except Timeout:
            # this fails in a folder that exists but takes no files, as under /proc
            (folder / name).touch()
            log.warning("waiting for another process that is working in %s", folder)
            acquired = lock.acquire()
    except (OSError, ValueError) as error:
        raise _cannot_write(folder, error) from error
    # an error inside the block is the caller's, not the disk's
    with acquired:
        yield


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn errors of a full or unwritable disk inside the block into a UserError.

    The errors may come from any library. The message names the folder.
    """
    try:
        yield
    except Exception as error:
        refused = isinstance(error, OSError) and error.errno in _REFUSED
        if isinstance(error, UserError) or not (refused or _FULL.search(str(error))):
            raise
        raise _cannot_write(folder, error) from error


def _cannot_write(folder: Path, error: Exception) -> UserError:
    full = _FULL.search(str(error))
    why = full.group() if full else getattr(error, "strerror", None) or error
    remedy = "free some disk space" if full else "fix that or name another folder"
    name = str(folder) if len(str(folder)) < 200 else f"{str(folder)[:120]}…"
    return UserError(
        f"cannot write to {name}: {why}; what was finished is safe: {remedy} and run the same "
        "command again"
    )


def move_aside(folder: Path, parent: Path) -> Path:
    """Move the files of a folder into a new folder, NAME.1, NAME.2 …, and return that.

    The folder itself and its lock stay. The caller must hold the folder.

    Args:
        folder: the folder that is to be empty.
        parent: the folder in which the new one is made.
    """
    copies = (parent / f"{folder.name}.{number}" for number in count(1))
    aside = next(copy for copy in copies if not copy.exists())
    with disk_errors(folder.parent):
        aside.mkdir(parents=True)
        for entry in list(folder.iterdir()):
            if not entry.name.endswith(".lock"):
                entry.rename(aside / entry.name)
    return aside


def check_room(folder: Path, size: int) -> None:
    """Raise the system's OSError for a full disk unless a folder has room for `size` bytes.

    Some libraries report a full disk less clearly.

    If the system supports it, the space is allocated and freed again, so that quotas and file size
    limits are noticed as well.
    """
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if hasattr(os, "posix_fallocate"):  # macOS has none
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)


@contextmanager
def appearing(target: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces the target when the block ends.

    When the block ends, flush it to the disk and rename it to the target.

    The folder is created if needed. If the block raises, or the disk is full or unwritable (a
    UserError), the temporary file is removed; so are those that killed processes left for this
    target.
    """
    beside = target.with_name(f"{target.name}.{os.getpid()}{PART}")
    with disk_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear_half_written(target)
        try:
            # not through a link that somebody else has put there
            beside.unlink(missing_ok=True)
            with beside.open("xb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)


def write(file: Path, content: bytes) -> None:
    """Write a file completely or not at all; see `appearing`."""
    with appearing(file) as out:
        out.write(content)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by name into a folder, each completely or not at all. Other processes wait."""
    with held(folder):
        for name, content in files.items():
            write(folder / name, content)


def _clear_half_written(target: Path) -> None:
    """Remove the temporary files of a target whose processes have ended."""
    form = re.compile(re.escape(target.name) + r"\.(\d+)" + re.escape(PART))
    for file in target.parent.iterdir():
        name = form.fullmatch(file.name)
        if name and not _runs(int(name[1])):
            file.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Return whether a process of that number runs on this machine, or may be running."""
    if os.name == "nt":  # where a signal of 0 ends the process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # of another user
    return True
