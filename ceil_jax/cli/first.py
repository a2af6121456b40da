"""Checks before anything is encoded: whether libraries, the hub and the models are there."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ceil_jax.cli.data_flags import NO_FILE, OwnData
from ceil_jax.errors import UserError
from ceil_jax.lm.openai.address import is_address
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.registry import is_function
from ceil_jax.tasks import TASKS
from ceil_jax.tasks.assets import ASSETS

if TYPE_CHECKING:
    from ceil_jax.pipeline.models import Models

log = logging.getLogger(__name__)

HUB_SECONDS = 5.0
"""How long the hub has to answer before it is taken for unreachable."""

EXTRAS = {"torch": "lm", "openai": "endpoint", "matplotlib": "plots", "ray": "ray"}
"""The extra that brings a library that only some uses need."""


def check_first(config: RunConfig, own: OwnData = NO_FILE, *needed: str) -> Models | None:
    """Raise a UserError for a missing library, `needed` or by the settings, and for a server that
    does not answer; do without an unreachable hub. Return the models that are on servers, if
    any."""
    local = not is_address(config.lm) and config.lm != "tiny" and not is_function(config.lm)
    wants = {"openai": is_address(config.lm), "torch": local, "ray": config.engine == "ray"}
    for module in (*needed, *(name for name, wanted in wants.items() if wanted)):
        if importlib.util.find_spec(module) is None:
            raise UserError(f"{module} is not installed; pip install 'ceil-jax[{EXTRAS[module]}]'")
    wanted = [
        name for name in (config.lm, config.encoder, config.skills.lm) if name and _on_hub(name)
    ]
    if own.data is None and config.data_dir is None:
        hub = TASKS[config.task].hub
        wanted += [] if hub is None else [hub.repo]
    if wanted:
        go_offline_without_hub(wanted)
    return ask_servers(config)


def ask_servers(config: RunConfig) -> Models | None:
    """Return the models of a run that are on servers, each of which has been asked what it can do;
    None if there are none."""
    lms = [name for name in dict.fromkeys((config.lm, config.skills.lm)) if name]
    if not any(map(is_address, (*lms, config.encoder))):
        return None
    # imports what encoders need, which takes seconds
    from ceil_jax.pipeline.models import LM, Models, Pretrained

    models = Models()
    for name in filter(is_address, lms):
        LM(models, name, config.dtype, config.device_map, config.endpoint).get()
    if is_address(config.encoder):
        # the length of its vectors is asked for by a first request
        _ = Pretrained(models, config.encoder, config.endpoint).get().dim
    return models


def _on_hub(name: str) -> bool:
    """Whether a model's name can only be a repository on the hub."""
    named = re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", name) is not None
    return named and name not in ASSETS and not Path(name).is_dir()


def go_offline_without_hub(wanted: Iterable[str]) -> None:
    """Tell the hub's libraries to use their caches only if the hub cannot be reached; they would
    retry for a minute.

    Has to be called before `huggingface_hub` is imported. A message names the repositories that are
    `wanted`.
    """
    hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    if os.environ.get("HF_HUB_OFFLINE") or _reachable(hub):
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    log.warning("the hub cannot be reached; looking for %s in its cache only", ", ".join(wanted))


def _reachable(address: str) -> bool:
    """Whether a server answers, with whatever; proxies of the environment are used."""
    try:
        urllib.request.urlopen(
            urllib.request.Request(address, method="HEAD"), timeout=HUB_SECONDS
        ).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError) as error:
        # a certificate that Python does not know may be one that the hub's libraries know
        return isinstance(getattr(error, "reason", None), ssl.SSLError)
    return True
