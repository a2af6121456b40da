"""The folders of the Hugging Face hub's cache: `models--owner--name/snapshots/COMMIT/…`."""

from __future__ import annotations

import os
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.store.places import user_path

SNAPSHOTS = "snapshots"


def in_hub_cache(name: str) -> bool:
    """Return whether the hub's cache on this machine has a model `owner/name`, of any commit."""
    home = os.environ.get("HF_HOME") or Path(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"
    )
    caches = [os.environ.get(name) for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")]
    cache = user_path(next(filter(None, caches), Path(home, "hub")))
    return (cache / f"models--{name.replace('/', '--')}" / SNAPSHOTS).is_dir()


def hub_snapshot(folder: Path) -> Path:
    """Return the snapshot folder inside a repository's folder of the hub's cache; any other folder
    unchanged.

    The snapshot is that of the branch `main`, or else the only one.

    Raises:
        UserError: there is no snapshot, or there are several and none is that of `main`.
    """
    snapshots = folder / SNAPSHOTS
    if not (snapshots.is_dir() and (folder / "refs").is_dir()):
        return folder
    main = folder / "refs" / "main"
    if main.is_file():
        snapshot = snapshots / main.read_text(errors="replace").strip()
        if snapshot.parent == snapshots and snapshot.is_dir():
            return snapshot
    commits = sorted(path for path in snapshots.iterdir() if path.is_dir())
    if len(commits) == 1:
        return commits[0]
    if commits:
        what = f"{len(commits)} snapshots, and none is the branch main; name one of them"
        raise UserError(f"{folder} holds {what}, such as {commits[-1]}")
    raise UserError(f"{folder} is a folder of the hub's cache without a snapshot; fetch it again")


def hub_name(folder: Path) -> str:
    """Return the name of a folder to show: `owner/name` in the hub's cache, else its own name."""
    resolved = folder.resolve()
    for path in (resolved, *resolved.parents[:2]):
        kind, *names = path.name.split("--")
        if kind in ("models", "datasets") and len(names) > 1 and (path / SNAPSHOTS).is_dir():
            return "/".join(names)
    return resolved.name
