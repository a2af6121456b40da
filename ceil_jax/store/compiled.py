"""The cache of programs that JAX compiled, so that a second run starts at once. JAX itself reads it unchecked.

The pool keeps each program as `ENTRY.SHA256`. A process works in a folder of its own, which begins with the pool's
whole programs, and adds what it compiled to the pool when it ends. A damaged program is removed and compiled again.
Deleting the pool is always safe.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

from ceil_jax.store.hashing import file_sha256

log = logging.getLogger(__name__)

VARIABLE = "JAX_COMPILATION_CACHE_DIR"
"""JAX reads it when it is imported."""

_PRIVATE = "in-use-"


def use_compiled(pool: Path) -> None:
    """Let this process use the compiled programs of a pool, and add its own to it when it ends.

    Call it before JAX is imported. A folder that the user has named in `JAX_COMPILATION_CACHE_DIR` is left to JAX,
    unchecked; where the pool cannot be written, nothing is cached.

    Args:
        pool: a folder; made if need be.
    """
    if os.environ.get(VARIABLE):
        return
    try:
        pool.mkdir(parents=True, exist_ok=True)
        _sweep(pool)
        private = Path(tempfile.mkdtemp(prefix=_PRIVATE, dir=pool))
        lock = FileLock(f"{private}.lock")
        lock.acquire()
        known = _fill(pool, private)
    except OSError as error:
        log.debug("no cache of compiled programs in %s: %s", pool, error)
        return
    os.environ[VARIABLE] = str(private)
    # XLA's own caches would lie in the folder too, unchecked, and its name would be in the key of every program
    os.environ.setdefault("JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES", "none")
    atexit.register(_collect, pool, private, known, lock, os.getpid())


def compiled_folder(pool: Path) -> Path:
    """Return where compiled programs are kept: the pool, or the folder that the user has named for them."""
    named = Path(os.environ.get(VARIABLE) or pool)
    return pool if named.parent == pool and named.name.startswith(_PRIVATE) else named


def _sweep(pool: Path) -> None:
    """Remove the folders of processes that were killed."""
    for lock_file in pool.glob(f"{_PRIVATE}*.lock"):
        try:
            with FileLock(lock_file).acquire(timeout=0):
                shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
        except Timeout:
            continue
        lock_file.unlink(missing_ok=True)


def _fill(pool: Path, private: Path) -> set[str]:
    """Put the pool's whole programs into a folder, under the names that JAX gave them; remove all other files."""
    known, damaged = set(), 0
    for file in sorted(pool.iterdir()):
        name, _, sha256 = file.name.rpartition(".")
        if not file.is_file() or file.name.startswith(_PRIVATE):
            continue
        if not name or file_sha256(file) != sha256:
            damaged += bool(name)  # a name without a checksum is of an older version
            file.unlink(missing_ok=True)
        else:
            os.link(file, private / name)
            known.add(name)
    if damaged:
        log.warning("%s: %d damaged compiled programs removed; compiling them again", pool, damaged)
    return known


def _collect(pool: Path, private: Path, known: set[str], lock: FileLock, process: int) -> None:
    if os.getpid() != process:
        return  # a fork's end is not this process's
    for file in private.glob("*-cache") if private.is_dir() else ():
        if file.name not in known:
            try:
                file.replace(pool / f"{file.name}.{file_sha256(file)}")
            except OSError as error:
                log.debug("%s is not kept: %s", file, error)
    shutil.rmtree(private, ignore_errors=True)
    lock.release()
    Path(lock.lock_file).unlink(missing_ok=True)
