"""The Hugging Face hub: whether it can be reached, and the folders of its cache,
`models--owner--name/snapshots/COMMIT/…`."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.store.opened import Files
from ceil_jax.store.places import user_path

log = logging.getLogger(__name__)

CONNECT_SECONDS = 1.0
"""How many seconds the hub, or the proxy before it, has to accept a connection."""

ANSWER_SECONDS = 5.0
"""How many seconds it then has to answer."""

SNAPSHOTS = "snapshots"


def check_hub(models: Mapping[str, str], datasets: Sequence[str], advice: str = "") -> None:
    """Tell the hub's libraries to use only their caches if the hub cannot be reached; see
    `go_offline_without_hub`.

    Args:
        models: the ids of models that are needed from the hub, by the flag that names them.
        datasets: the ids of data sets that are needed from the hub.
        advice: the end of the message about a model; nothing by default.

    Raises:
        UserError: the hub cannot be reached, and its cache here does not have one of the models.
    """
    repositories = [*models.values(), *datasets]
    if not (repositories and go_offline_without_hub(repositories)):
        return
    for flag, name in models.items():
        if not in_hub_cache(name):
            raise UserError(
                f"{flag} {name}: the hub cannot be reached, and its cache here has no such "
                "model; name a folder, or a model that a package brings (docs/new_lm.md)"
                + (advice if flag == "--lm" else "")
            )


def go_offline_without_hub(repositories: Iterable[str]) -> bool:
    """If the hub cannot be reached, tell its libraries to use only their caches, because they would
    retry for a minute. Return whether only caches are used.

    It has to be called before `huggingface_hub` is imported. `repositories` are named in a warning.
    """
    offline = os.environ.get("HF_HUB_OFFLINE", "")
    if offline:
        return offline.upper() in ("1", "ON", "YES", "TRUE")
    if _reachable(os.environ.get("HF_ENDPOINT", "https://huggingface.co")):
        return False
    os.environ["HF_HUB_OFFLINE"] = "1"
    log.warning(
        "the hub cannot be reached; looking for %s in its cache only", ", ".join(repositories)
    )
    return True


def _reachable(address: str) -> bool:
    """Whether a server accepts a connection soon and then sends any answer; proxies of the
    environment are used."""
    parts = urllib.parse.urlsplit(address)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if not _connects(parts.hostname or "", port):
            return False
        urllib.request.urlopen(
            urllib.request.Request(address, method="HEAD"), timeout=ANSWER_SECONDS
        ).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError) as error:
        # the hub's libraries may know a certificate that Python does not know
        return isinstance(getattr(error, "reason", None), ssl.SSLError)
    return True


def _connects(host: str, port: int) -> bool:
    """Whether a host accepts a connection within CONNECT_SECONDS."""
    connected = threading.Event()

    def connect() -> None:
        with suppress(OSError, ValueError):
            socket.create_connection((host, port), CONNECT_SECONDS).close()
            connected.set()

    # looking up a host's name has no time limit, so that it runs in a thread that ends with us
    attempt = threading.Thread(target=connect, daemon=True)
    attempt.start()
    attempt.join(CONNECT_SECONDS)
    return connected.is_set()


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
    if (folder / "refs" / "main").is_file():
        with Files(folder) as files:
            commit = files.read("refs/main", 1000).decode(errors="replace").strip()
        snapshot = snapshots / commit
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
