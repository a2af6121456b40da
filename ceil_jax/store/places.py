"""Folders of the user: paths with `~`, and the home folder, which not every process has."""

from __future__ import annotations

import os
from pathlib import Path

from ceil_jax.errors import UserError


def home() -> Path | None:
    """Return the home folder; None where the process has none, as in a container whose user has no
    name and no HOME."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def user_path(path: str | os.PathLike[str]) -> Path:
    """Return a path in which a `~` at its start is replaced by the home folder.

    Raises:
        UserError: it starts with `~`, and that folder is not known.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(
            f"{os.fspath(path)}: the home folder is not known here; set HOME, or write the whole "
            "path"
        ) from None
