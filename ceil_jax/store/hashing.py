"""Hashes of values, files and folders: what names a stage and shows that a file is whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, dataclasses as objects."""

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

    return json.dumps(value, default=plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """16 hex digits that stand for the value; arrays count by their bytes."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def file_sha256(file: Path) -> str:
    """In hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_sha256(folder: Path) -> str:
    """Of the names and contents of all files in it."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    lines = "".join(f"{file_sha256(file)} {file.relative_to(folder)}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()
