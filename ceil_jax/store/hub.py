"""A check whether the Hugging Face hub can be reached, and look-ups in its cache on this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ceil_jax.errors import UserError

log = logging.getLogger(__name__)

SECONDS = 3.0
"""Seconds that the hub has to accept a connection, and then to answer."""


def check_hub(models: Mapping[str, str], datasets: Sequence[str], advice: str = "") -> None:
    """Tell the hub's libraries to use only their caches if the hub cannot be reached.

    See `go_offline_without_hub`.

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
                f"{flag} {name}: the hub cannot be reached, and its cache on this machine has no such "
                "model; name a folder, or a model that a package brings (docs/new_lm.md)"
                + (advice if flag == "--lm" else "")
            )


def go_offline_without_hub(repositories: Iterable[str]) -> bool:
    """If the hub cannot be reached, tell its libraries to use only their caches.

    They would otherwise retry for a minute. Return whether only caches are used.

    It has to be called before `huggingface_hub` is imported. `repositories` are named in a warning.
    """
    offline = os.environ.get("HF_HUB_OFFLINE", "")
    if offline:
        return offline.upper() in ("1", "ON", "YES", "TRUE")
    address = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    try:
        with urlopen(Request(address, method="HEAD"), timeout=SECONDS):
            return False
    except HTTPError:
        return False  # it answered
    except (OSError, HTTPException, ValueError):
        os.environ["HF_HUB_OFFLINE"] = "1"
        log.warning(
            "the hub cannot be reached; looking for %s in its cache only", ", ".join(repositories)
        )
        return True


def in_hub_cache(name: str) -> bool:
    """Return whether the hub's cache on this machine has a model `owner/name`."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return isinstance(try_to_load_from_cache(name, "config.json"), str)
    except HFValidationError:
        return False


def hub_name(folder: Path) -> str:
    """Return the name to show for a folder: `owner/name` in the hub's cache, else its own name."""
    resolved = folder.resolve()
    for path in (resolved, *resolved.parents[:2]):
        kind, *names = path.name.split("--")
        if kind in ("models", "datasets") and len(names) > 1 and (path / "snapshots").is_dir():
            return "/".join(names)
    return resolved.name
