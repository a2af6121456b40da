"""The first checks of every command: its settings, data and models, before any text is encoded."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ceil_jax.cli.data_flags import NO_FILE, OwnData
from ceil_jax.errors import UserError
from ceil_jax.methods.registry import Usable, scorable
from ceil_jax.methods.row import Row
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models, NamedModels, named_models
from ceil_jax.store.hub import check_hub
from ceil_jax.tasks import TASKS
from ceil_jax.tasks.example import Task

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
    models = check_first(config, file, *needed)
    usable = Usable(rows)
    # LMs on this machine always give log-probabilities
    if models.lm.is_served or models.lm.is_function:
        usable = scorable(models.lm.get(), rows)
    task = file.read(config, held_out)
    if any(row.encodes for row in usable.rows):
        models.encoder.get()
    return CheckedCommand(replace(config, task=task.name), task, models.cache, *usable)


def check_first(config: RunConfig, file: OwnData = NO_FILE, *needed: str) -> NamedModels:
    """Check all that the settings show without data and local models, and ask the servers; go
    offline if the hub cannot be reached. Return the models that the settings name, of which only
    those on servers are loaded.

    For the arguments see `begin`.

    Raises:
        UserError: settings that are wrong, or a server that does not answer.
    """
    file.check(config)
    if config.out.is_file():
        raise UserError(f"--out {config.out} is a file; name a folder")
    models = named_models(config, Models())
    for library in (*needed, *models.lm.libraries):
        if importlib.util.find_spec(library) is None:
            raise UserError(
                f"{library} is not installed; pip install 'ceil-jax[{EXTRAS[library]}]'"
            )
    dataset = None if file.data or config.data_dir else TASKS[config.task].hub
    check_hub(models.on_hub, [dataset.repo] if dataset else [])
    models.ask_servers()
    return models
