"""Files that systems, file managers and editors leave in folders, which are never content."""

from __future__ import annotations

from pathlib import PurePath

_NAMES = {
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
"""Names of such files on Windows, macOS and network storage, in lower case."""


def is_sidecar(relative: PurePath) -> bool:
    """Return whether any part of a relative path is hidden (`._x`, `.DS_Store`, `.nfs…`,
    `.ipynb_checkpoints`), an editor's backup (`x~`), or has a known name such as `Thumbs.db`."""
    return any(
        part.startswith(".") or part.endswith("~") or part.lower() in _NAMES
        for part in relative.parts
    )
