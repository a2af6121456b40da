"""What can go wrong with a folder: no room, another process in it, damage."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ceil_jax.errors import UserError

log = logging.getLogger(__name__)

_DISK = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.ENOTDIR, errno.EEXIST),
}
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
"""How libraries that write from C++ or Rust say so, in exceptions of their own."""


@contextmanager
def held(folder: Path, name: str = ".lock") -> Iterator[None]:
    """A folder, made if need be and this process's alone until the block ends; a second one waits, and says so.

    Under different names of the lock, parts of it are.

    Raises:
        UserError: the disk is full or the folder cannot be written.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / name):
            yield


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        log.warning("another process is working in %s; waiting for it", file.parent)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """A full or unwritable disk, whoever met it, as one line."""
    try:
        yield
    except Exception as error:
        known = isinstance(error, OSError) and error.errno in _DISK
        said = _FULL.search(str(error))
        if isinstance(error, UserError) or not (known or said):
            raise
        why = said.group() if said else error.strerror if isinstance(error, OSError) else None
        raise UserError(
            f"cannot write to {folder}: {why or error}; what was finished is safe: "
            "make room and run the same command again"
        ) from error


def check_room(folder: Path, size: int) -> None:
    """Before libraries write that meet a full disk with more than one line.

    Raises:
        OSError: fewer than `size` bytes are free where the folder is; a stage makes one line of it.
    """
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
