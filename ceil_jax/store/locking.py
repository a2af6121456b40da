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

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

PART = ".part"
"""The end of the name of a file that is being written: NAME.PID.part."""

_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOTDIR, errno.EEXIST}
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
"""Phrases of the system, which libraries that write from C++ or Rust repeat in exceptions of their
own."""


@contextmanager
def held(folder: Path, name: str = ".lock") -> Iterator[None]:
    """Make a folder if need be and hold it for this process until the block ends. Others wait, and
    say so.

    Different names of the lock's file lock parts of the folder separately. A full disk, a folder
    that cannot be made or written, or a file system without locks is a UserError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # a folder that is there but takes no files, as under /proc, is met here
        (folder / name).touch()
    except (OSError, ValueError) as error:
        raise _cannot_write(folder, error) from error
    _check_locks(folder / name)
    # an error inside the block is the caller's, not the disk's
    lock = FileLock(folder / name)
    try:
        taken = lock.acquire(timeout=0)
    except Timeout:
        log.warning("another process is working in %s; waiting for it", folder)
        taken = lock.acquire()
    with taken:
        yield


def _check_locks(file: Path) -> None:
    """Raise a UserError if the file's file system refuses locks.

    Where it does, filelock takes the existence of the file for the lock and waits for ever, or lets
    the system's error through.
    """
    if fcntl is None:  # Windows, where all file systems lock
        return
    with file.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another process holds it
        except OSError as error:
            raise UserError(
                f"{file.parent}: its file system does not lock files ({error.strerror or error}), "
                "and several processes may not work there; name a folder on another one"
            ) from error


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
    name = str(folder) if len(str(folder)) < 200 else f"{str(folder)[:120]}…"
    return UserError(
        f"cannot write to {name}: {why}; what was finished is safe: {remedy} and run the same "
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

    The folder is made if need be. If the block raises, or the disk is full or unwritable (a
    UserError), the unfinished file is removed; so is what killed processes left of this target.
    """
    beside = target.with_name(f"{target.name}.{os.getpid()}{PART}")
    with disk_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear_half_written(target)
        try:
            with beside.open("wb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)


def _clear_half_written(target: Path) -> None:
    """Remove the unfinished files of a target whose processes are no more."""
    form = re.compile(re.escape(target.name) + r"\.(\d+)" + re.escape(PART))
    for file in target.parent.iterdir():
        name = form.fullmatch(file.name)
        if name and not _runs(int(name[1])):
            file.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Return whether a process of that number runs on this machine, or may run."""
    if fcntl is None:  # Windows, where a signal of 0 ends the process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # of another user
    return True
