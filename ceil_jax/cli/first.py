"""The beginning of every command: its settings, data and models are checked before anything is
encoded."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import socket
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ceil_jax.cli.data_flags import NO_FILE, OwnData, check_flags, read_data
from ceil_jax.errors import UserError
from ceil_jax.lm.openai.address import is_address
from ceil_jax.methods.registry import Usable, scorable
from ceil_jax.methods.row import Row
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models, NamedEncoder, NamedLM
from ceil_jax.registry import is_function
from ceil_jax.store.hub_cache import in_hub_cache
from ceil_jax.tasks import TASKS
from ceil_jax.tasks.assets import ASSETS
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.files import existing_file

log = logging.getLogger(__name__)

CONNECT_SECONDS = 1.0
"""Seconds that the hub, or the proxy before it, has to take a connection."""

ANSWER_SECONDS = 5.0
"""Seconds that it then has to answer."""

EXTRAS = {"torch": "lm", "openai": "endpoint", "matplotlib": "plots", "ray": "ray"}
"""The extra that brings a library that only some uses need."""


class Begun(NamedTuple):
    """A command's data and models, checked as far as that takes no work."""

    config: RunConfig
    """The settings, with the task's name."""
    task: Task
    models: Models
    rows: tuple[Row, ...]
    """The rows that were named, with the configuration's settings, without those that the LM
    cannot teach."""
    left_out: str
    """A line on the rows that are left out and why; "" where none is."""


def begin(
    config: RunConfig,
    file: OwnData = NO_FILE,
    methods: Sequence[str] = (),
    *needed: str,
    held_out: float = 0.1,
) -> Begun:
    """Read the data of a command and load its models; whatever can be refused is refused here,
    before any text is encoded and any prompt is read.

    The cheapest checks come first: flags, files, libraries and names, which take no time; then a server,
    which says in its first answers what it can do; then the data; models of this machine last.

    Args:
        config: the settings of the run.
        file: the file of the user's own, if there is one.
        methods: the names of rows that the command is given; empty where it chooses them itself.
        needed: libraries that the command needs besides those of the settings.
        held_out: the share of a file's inputs that are its queries.

    Raises:
        UserError: flags that exclude one another, a missing library, an unknown method, metric or
            model, data that cannot be read, a server that does not answer, methods of which none
            can learn from the LM.
    """
    rows = tuple(config.row(name) for name in dict.fromkeys(methods))
    models = check_first(config, file, *needed) or Models()
    lm = NamedLM(models, config.lm, config.dtype, config.device_map, config.endpoint)
    usable = Usable(rows)
    # those of this machine give log-probabilities
    if is_address(config.lm) or is_function(config.lm):
        usable = scorable(lm.get(), rows)
    task = read_data(config, file, held_out=held_out)
    if any(row.encodes for row in usable.rows):
        NamedEncoder(models, config.encoder, config.endpoint).get()
    return Begun(replace(config, task=task.name), task, models, *usable)


def check_first(config: RunConfig, file: OwnData = NO_FILE, *needed: str) -> Models | None:
    """Raise a UserError for what the settings alone show to be wrong, and for a server that does
    not answer; do without an unreachable hub. Return the models that are on servers, if any.

    For the arguments see `begin`.
    """
    check_flags(config, file)
    for path in filter(None, (file.data, file.validation)):
        existing_file(path)
    if file.metric is not None:
        METRICS.require(file.metric)
    if config.out.is_file():
        raise UserError(f"--out {config.out} is a file; name a folder")
    local = not is_address(config.lm) and config.lm != "tiny" and not is_function(config.lm)
    wants = {"openai": is_address(config.lm), "torch": local, "ray": config.engine == "ray"}
    for module in (*needed, *(name for name, wanted in wants.items() if wanted)):
        if importlib.util.find_spec(module) is None:
            raise UserError(f"{module} is not installed; pip install 'ceil-jax[{EXTRAS[module]}]'")
    named = {"--lm": config.lm, "--encoder": config.encoder, "--skills.lm": config.skills.lm}
    on_hub = {flag: name for flag, name in named.items() if name and _on_hub(name)}
    wanted = [*on_hub.values()]
    if file.data is None and config.data_dir is None:
        hub = TASKS[config.task].hub
        wanted += [] if hub is None else [hub.repo]
    if wanted and go_offline_without_hub(wanted):
        for flag, name in on_hub.items():
            if not in_hub_cache(name):
                raise UserError(
                    f"{flag} {name}: the hub cannot be reached, and its cache here has no such "
                    "model; name a folder, or a model that a package brings (docs/new_lm.md)"
                )
    return ask_servers(config)


def ask_servers(config: RunConfig) -> Models | None:
    """Return the models of a run that are on servers, each of which has been asked what it can do;
    None if there are none."""
    lms = [name for name in dict.fromkeys((config.lm, config.skills.lm)) if name]
    if not any(map(is_address, (*lms, config.encoder))):
        return None
    models = Models()
    for name in filter(is_address, lms):
        NamedLM(models, name, config.dtype, config.device_map, config.endpoint).get()
    if is_address(config.encoder):
        # the length of its vectors is asked for by a first request
        _ = NamedEncoder(models, config.encoder, config.endpoint).get().dim
    return models


def _on_hub(name: str) -> bool:
    """Whether a model's name can only be a repository on the hub."""
    named = re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", name) is not None
    return named and name not in ASSETS and not Path(name).is_dir()


def go_offline_without_hub(wanted: Iterable[str]) -> bool:
    """Tell the hub's libraries to use their caches only if the hub cannot be reached; they would
    retry for a minute. Return whether only caches are used.

    Has to be called before `huggingface_hub` is imported. A message names the repositories that are
    `wanted`.
    """
    offline = os.environ.get("HF_HUB_OFFLINE", "")
    if offline:
        return offline.upper() in ("1", "ON", "YES", "TRUE")
    if _reachable(os.environ.get("HF_ENDPOINT", "https://huggingface.co")):
        return False
    os.environ["HF_HUB_OFFLINE"] = "1"
    log.warning("the hub cannot be reached; looking for %s in its cache only", ", ".join(wanted))
    return True


def _reachable(address: str) -> bool:
    """Whether a server takes a connection soon, and then answers, with whatever; proxies of the
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
        # a certificate that Python does not know may be one that the hub's libraries know
        return isinstance(getattr(error, "reason", None), ssl.SSLError)
    return True


def _connects(host: str, port: int) -> bool:
    """Whether something takes connections there within CONNECT_SECONDS."""
    taken = threading.Event()

    def connect() -> None:
        with suppress(OSError, ValueError):
            socket.create_connection((host, port), CONNECT_SECONDS).close()
            taken.set()

    # looking up a name has no limit of its own, and what waits for it must not keep the command
    attempt = threading.Thread(target=connect, daemon=True)
    attempt.start()
    attempt.join(CONNECT_SECONDS)
    return taken.is_set()
