"""One process at a time in a folder; files that appear whole; a disk that is full or unwritable, as
one line."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from ceil_jax.errors import UserError

log = logging.getLogger(__name__)

_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOTDIR, errno.EEXIST}
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
"""Phrases of the system, which libraries that write from C++ or Rust repeat in exceptions of their
own."""


@contextmanager
def held(folder: Path, name: str = ".lock") -> Iterator[None]:
    """Make a folder if need be and hold it for this process until the block ends. Others wait, and
    say so.

    Different names of the lock's file lock parts of the folder separately. A full disk, or a folder
    that cannot be made or written, is a UserError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # a folder that is there but takes no files, as under /proc, is met here
        (folder / name).touch()
    except (OSError, ValueError) as error:
        raise _cannot_write(folder, error) from error
    # an error inside the block is the caller's, not the disk's
    lock = FileLock(folder / name)
    try:
        taken = lock.acquire(timeout=0)
    except Timeout:
        log.warning("another process is working in %s; waiting for it", folder)
        taken = lock.acquire()
    with taken:
        yield


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn a full or unwritable disk, whoever met it in this block, into a UserError that names the
    folder."""
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
    remedy = "make room" if full else "mend that or name another folder"
    shown = str(folder) if len(str(folder)) < 200 else f"{str(folder)[:120]}…"
    return UserError(
        f"cannot write to {shown}: {why}; what was finished is safe: {remedy} and run the same "
        "command again"
    )


def check_room(folder: Path, size: int) -> None:
    """Raise the system's OSError of a full disk unless a folder takes so many bytes; some libraries
    say it worse.

    Where the system can, the room is taken and given back, so that a quota or a limit of file size
    is met as well.
    """
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if hasattr(os, "posix_fallocate"):  # macOS has none
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)


@contextmanager
def appearing(target: Path) -> Iterator[IO[bytes]]:
    """Yield a file beside its place; flush it to the disk and rename it into place when the block
    ends.

    The folder is made if need be. A full or unwritable disk is a UserError.
    """
    beside = target.with_name(f"{target.name}.{os.getpid()}.part")
    with disk_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        beside.replace(target)
