"""The first checks of every command, on its settings, data and models, before any text is encoded."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ceil_jax.cli.data_flags import NO_OWN_DATA, OwnData
from ceil_jax.errors import UserError
from ceil_jax.lm.openai.address import SERVED
from ceil_jax.lm.prompts import instruction
from ceil_jax.methods.registry import applicable, usable_with
from ceil_jax.methods.row import Row
from ceil_jax.pipeline.config import COMPARED, RunConfig
from ceil_jax.pipeline.models import Models, NamedModels, named_models
from ceil_jax.store.hub import check_hub
from ceil_jax.store.places import user_path
from ceil_jax.tasks import TASKS
from ceil_jax.tasks.example import Task

EXTRAS = {"torch": "lm", "openai": "endpoint", "matplotlib": "plots", "ray": "ray"}
"""Optional library → the extra of this package that installs it."""


class CheckedCommand(NamedTuple):
    """The data and models of a command, after all checks that take little time."""

    config: RunConfig
    """The settings, with the task's name."""
    task: Task
    models: Models
    rows: tuple[Row, ...]
    """The methods with the run's settings, without those that need another LM or task."""
    remarks: list[str]
    """Lines on which methods are left out and why."""


def begin(
    config: RunConfig,
    own_data: OwnData = NO_OWN_DATA,
    methods: Sequence[str] | None = (),
    *needed: str,
    held_out: float = 0.1,
) -> CheckedCommand:
    """Read the data of a command and load its models.

    All mistakes that can be found before a text is encoded or a prompt is read are found here.

    The cheapest checks come first: flags, files, libraries and names; then a server, whose first
    answers show what it can do; then the data; models on this machine last.

    Args:
        config: the settings of the run.
        own_data: the rows of the user, if --data names some.
        methods: the names of the methods that the user gave; empty if the command chooses them
            itself; None for those of `COMPARED` that the task allows.
        needed: libraries that the command needs besides those of the settings.
        held_out: the share of a file's inputs that become queries.

    Raises:
        UserError: flags that exclude one another, a missing library, an unknown method, metric or
            model, data that cannot be read, a server that does not answer, or an LM from which no
            named method can learn.
    """
    config = replace(config, system=system_text(config.system))
    names = COMPARED if methods is None else methods
    rows = tuple(config.row(name) for name in dict.fromkeys(names))
    models = check_first(config, own_data, *needed)
    remarks = []
    # LMs on this machine always give log-probabilities
    others = [models.lm.get()] if models.lm.is_served or models.lm.is_function else []
    for lm in others:
        rows, left_out = usable_with(lm, rows)
        remarks.append(left_out)
    task = own_data.read(config, held_out)
    for lm in others:
        rows, left_out = usable_with(lm, rows, task)
        remarks.append(left_out)
    if methods is None:
        rows, left_out = applicable(task, rows)
        remarks.append(left_out)
    if any(row.encodes for row in rows):
        models.encoder.get()
    remarks = [line for line in remarks if line]
    return CheckedCommand(replace(config, task=task.name), task, models.cache, rows, remarks)


_LONGEST = 2**20
"""The largest size of an instruction, in bytes."""


def system_text(given: str | None) -> str | None:
    """Return the instruction that --system gives, from its file for @FILE.

    Raises:
        UserError: there is no such file, it is not a text, or the instruction names what it cannot
            (`lm.prompts.instruction`).
    """
    if given is not None and given.startswith("@"):
        file = user_path(given[1:])
        try:
            with file.open("rb") as stream:  # which may be a device without an end
                content = stream.read(_LONGEST + 1)
            given = content.decode().strip()
            if len(content) > _LONGEST:
                raise UserError(f"--system @{file}: has more than {_LONGEST:,} bytes")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
            raise UserError(f"--system @{file}: {why}; expected @FILE or the text itself") from None
    if given:
        instruction(given, ["a label"])
    return given


def check_first(config: RunConfig, own_data: OwnData = NO_OWN_DATA, *needed: str) -> NamedModels:
    """Check the settings before data are read, and return the models that they name.

    The hub's cache alone is used if the hub cannot be reached. Only models on servers are loaded:
    the servers are asked what they can do.

    For the arguments see `begin`.

    Raises:
        UserError: settings that are wrong, or a server that does not answer.
    """
    if own_data.data and config.task != RunConfig().task:
        raise UserError(
            f"--task {config.task}: not together with --data, which is a task of its own; give one of them"
        )
    own_data.check()
    if config.out.is_file():
        raise UserError(f"--out {config.out} is a file; name a folder")
    models = named_models(config, Models())
    for library in (*needed, *models.lm.libraries):
        if importlib.util.find_spec(library) is None:
            raise UserError(
                f"{library} is not installed; pip install 'ceil-jax[{EXTRAS[library]}]'"
            )
    dataset = None if own_data.data or config.data_dir else TASKS[config.task].hub
    check_hub(models.on_hub, [dataset.repo] if dataset else [], f"; {SERVED}")
    models.ask_servers()
    return models
