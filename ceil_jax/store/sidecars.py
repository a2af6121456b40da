"""Files that systems, file managers and editors leave in any folder; they are never content."""

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
"""Names in lower case, of Windows, macOS and network storage."""


def is_sidecar(relative: PurePath) -> bool:
    """Return whether a part of a relative path is hidden (`._x`, `.DS_Store`, `.nfs…`,
    `.ipynb_checkpoints`), an editor's copy (`x~`), or of a known name such as `Thumbs.db`."""
    return any(
        part.startswith(".") or part.endswith("~") or part.lower() in _NAMES
        for part in relative.parts
    )
