"""Hashes of values, files and folders.

They name stages and reveal damaged files. Some files of a folder do not count as its content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

NO_KEY = {"key": False}
"""Metadata that keep a dataclass field out of the keys of stages."""

_POINTER = b"version https://git-lfs"

POINTER = "is a Git LFS pointer, not the file itself; fetch the file: git lfs pull"
"""The end of an error message about a file that is only a pointer to another."""

_SIDECARS = {
    "thumbs.db",
    "ehthumbs.db",
    "desktop.ini",
    "icon\r",
    "@eadir",
    "__macosx",
    "$recycle.bin",
    "lost+found",
    "system volume information",
}
"""Names of files that Windows, macOS and network storage leave in folders, in lower case."""


def canonical(value: Any) -> str:
    """Return the canonical JSON text of a value: sorted keys, no spaces, dataclasses as objects.

    A value may contain JSON values, dataclasses, paths and NumPy arrays (as dtype, shape and hash
    of their bytes); anything else is a TypeError.
    """

    def plain(item: Any) -> Any:
        if is_dataclass(item) and not isinstance(item, type):
            return {field.name: getattr(item, field.name) for field in fields(item)}
        if isinstance(item, np.ndarray):
            content = hashlib.sha256(np.ascontiguousarray(item).data).hexdigest()
            return [str(item.dtype), list(item.shape), content]
        if isinstance(item, Mapping):
            return dict(item)
        if isinstance(item, Path):
            return str(item)
        raise TypeError(f"{type(item).__name__} cannot be part of a stage's key")

    return json.dumps(
        value, default=plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )


def digest(value: Any) -> str:
    """Return the first 16 hex digits of the sha256 of a value's canonical text."""
    return text_digest(canonical(value).encode())


def text_digest(content: bytes) -> str:
    """Return the first 16 hex digits of the sha256 of some bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


def file_sha256(file: Path) -> str:
    """Return the sha256 of a file's content, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_pointer(file: Path) -> bool:
    """Return whether a file is a pointer of Git LFS.

    A clone without Git LFS has it in place of a large file.
    """
    try:
        if not file.is_file():  # a pipe would never end
            return False
        with file.open("rb") as stream:
            return stream.read(len(_POINTER)) == _POINTER
    except OSError:
        return False


def file_hashes(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file under a folder, by its relative path, in sorted order.

    Files of file managers are left out.
    """
    return {
        file.relative_to(folder).as_posix(): file_sha256(file)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not is_sidecar(file.relative_to(folder))
    }


def is_sidecar(relative: PurePath) -> bool:
    """Return whether a file is one that operating systems, file managers and editors leave in
    folders.

    It is never content. Any part of its relative path is hidden (`._x`, `.DS_Store`, `.nfs…`,
    `.ipynb_checkpoints`), an editor's backup (`x~`), or has a known name such as `Thumbs.db`.
    """
    return any(
        part.startswith(".") or part.endswith("~") or part.lower() in _SIDECARS
        for part in relative.parts
    )
