"""The first checks of every command: its settings, data and models, before any text is encoded."""

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
"""How many seconds the hub, or the proxy before it, has to accept a connection."""

ANSWER_SECONDS = 5.0
"""How many seconds it then has to answer."""

EXTRAS = {"torch": "lm", "openai": "endpoint", "matplotlib": "plots", "ray": "ray"}
"""The extra that installs a library which only some uses need."""


class CheckedCommand(NamedTuple):
    """The data and models of a command, after the checks that take little time."""

    config: RunConfig
    """The settings, with the task's name."""
    task: Task
    models: Models
    rows: tuple[Row, ...]
    """The named methods with the run's settings, without those that need another LM."""
    left_out: str
    """A line on which methods are left out and why; "" if none is."""


def begin(
    config: RunConfig,
    file: OwnData = NO_FILE,
    methods: Sequence[str] = (),
    *needed: str,
    held_out: float = 0.1,
) -> CheckedCommand:
    """Read the data of a command and load its models. All mistakes that can be found before a text
    is encoded or a prompt is read are found here.

    The cheapest checks come first: flags, files, libraries and names; then a server, whose first
    answers show what it can do; then the data; models on this machine last.

    Args:
        config: the settings of the run.
        file: the file of the user, if there is one.
        methods: the names of the methods that the user gave; empty if the command chooses them
            itself.
        needed: libraries that the command needs besides those of the settings.
        held_out: the share of a file's inputs that become queries.

    Raises:
        UserError: flags that exclude one another, a missing library, an unknown method, metric or
            model, data that cannot be read, a server that does not answer, or an LM from which no
            named method can learn.
    """
    rows = tuple(config.row(name) for name in dict.fromkeys(methods))
    models = check_first(config, file, *needed) or Models()
    lm = NamedLM(models, config.lm, config.dtype, config.device_map, config.endpoint)
    usable = Usable(rows)
    # LMs on this machine always give log-probabilities
    if is_address(config.lm) or is_function(config.lm):
        usable = scorable(lm.get(), rows)
    task = read_data(config, file, held_out=held_out)
    if any(row.encodes for row in usable.rows):
        NamedEncoder(models, config.encoder, config.endpoint).get()
    return CheckedCommand(replace(config, task=task.name), task, models, *usable)


def check_first(config: RunConfig, file: OwnData = NO_FILE, *needed: str) -> Models | None:
    """Check all that the settings show without data and local models, and ask the servers; go
    offline if the hub cannot be reached. Return the models that are on servers, if there are any.

    For the arguments see `begin`.

    Raises:
        UserError: settings that are wrong, or a server that does not answer.
    """
    check_flags(config, file)
    for path in filter(None, (file.data, file.validation)):
        existing_file(path)
    if file.metric is not None:
        METRICS.require(file.metric)
    if config.out.is_file():
        raise UserError(f"--out {config.out} is a file; name a folder")
    for module in (*needed, *_libraries(config)):
        if importlib.util.find_spec(module) is None:
            raise UserError(f"{module} is not installed; pip install 'ceil-jax[{EXTRAS[module]}]'")
    models = {"--lm": config.lm, "--encoder": config.encoder, "--skills.lm": config.skills.lm}
    hub_models = {flag: name for flag, name in models.items() if name and _on_hub(name)}
    repositories = list(hub_models.values())
    if file.data is None and config.data_dir is None:
        dataset = TASKS[config.task].hub
        if dataset is not None:
            repositories.append(dataset.repo)
    if repositories and go_offline_without_hub(repositories):
        for flag, name in hub_models.items():
            if not in_hub_cache(name):
                raise UserError(
                    f"{flag} {name}: the hub cannot be reached, and its cache here has no such "
                    "model; name a folder, or a model that a package brings (docs/new_lm.md)"
                )
    return ask_servers(config)


def _libraries(config: RunConfig) -> list[str]:
    """The optional libraries that a run needs."""
    libraries = []
    if is_address(config.lm):
        libraries.append("openai")
    elif config.lm != "tiny" and not is_function(config.lm):
        libraries.append("torch")
    if config.engine == "ray":
        libraries.append("ray")
    return libraries


def ask_servers(config: RunConfig) -> Models | None:
    """Return the models of a run that are on servers, after requests that find out what these can
    do; None if there are none."""
    lms = [name for name in dict.fromkeys((config.lm, config.skills.lm)) if name]
    if not any(map(is_address, (*lms, config.encoder))):
        return None
    models = Models()
    for name in filter(is_address, lms):
        NamedLM(models, name, config.dtype, config.device_map, config.endpoint).get()
    if is_address(config.encoder):
        # a first request finds out the length of its vectors
        _ = NamedEncoder(models, config.encoder, config.endpoint).get().dim
    return models


def _on_hub(name: str) -> bool:
    """Whether a model's name can only be a repository on the hub."""
    has_owner = re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", name) is not None
    return has_owner and name not in ASSETS and not Path(name).is_dir()


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
