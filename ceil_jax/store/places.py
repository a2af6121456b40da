"""The home folder, which some processes do not have, and the paths that begin with `~`."""

from __future__ import annotations

import os
from pathlib import Path

from ceil_jax.errors import UserError


def home() -> Path | None:
    """Return the home folder.

    None if the process has none, as in a container whose user has neither a name nor HOME.
    """
    try:
        return Path.home()
    except RuntimeError:
        return None


def user_path(path: str | os.PathLike[str]) -> Path:
    """Return a path with a leading `~` replaced by the home folder.

    Raises:
        UserError: the path starts with `~`, and the home folder is unknown.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(
            f"{os.fspath(path)}: the home folder is not known; set HOME, or write the full path"
        ) from None
