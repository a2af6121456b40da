"""The list of tasks: their metrics, their sizes, and which of them can be read here without a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ceil_jax.report.table import Table
from ceil_jax.tasks import TASKS
from ceil_jax.tasks.spec import TaskSpec


class ListedTask(NamedTuple):
    """One line of the list."""

    name: str
    metric: str
    bank: int | None
    """Examples in the bank, if that is known without reading the data."""
    queries: int | None
    source: str
    """embedded, a repository on the hub, or the folder that --data-dir has to hold."""
    here: bool
    """Whether the data is on this machine: embedded, in the hub's cache, or in --data-dir."""


def listed(data_dir: Path | None = None) -> list[ListedTask]:
    """Return all tasks in the order of TASKS.

    Args:
        data_dir: a folder of datasets; None for none.
    """
    found = []
    for spec in TASKS.values():
        bank, queries = spec.sizes or (spec.bank_size, None)
        found.append(ListedTask(spec.name, spec.metric, bank, queries, _source(spec), _here(spec, data_dir)))
    return found


def page(tasks: list[ListedTask]) -> str:
    """Return the list as text for a terminal."""
    rows = [[t.name, t.metric, t.bank, t.queries, "yes" if t.here else None, t.source] for t in tasks]
    table = Table(["task", "metric", "bank", "queries", "here", "source"], rows).text()
    return (
        f"{table}\n\nhere: the data is on this machine. Without a size, the data has to be read to know it.\n"
        "ceil-jax tasks NAME shows one task: its sizes and five prompts."
    )


def _source(spec: TaskSpec) -> str:
    if spec.embedded:
        return "embedded"
    return spec.hub.repo if spec.hub else f"files in {spec.folder}/"


def _here(spec: TaskSpec, data_dir: Path | None) -> bool:
    if data_dir is not None and spec.folder and (data_dir / spec.folder).is_dir():
        return True
    if spec.embedded:
        return True
    return spec.hub is not None and _letters(spec.hub.repo) in _cached()


def _cached() -> set[str]:
    """Return the repositories that the library `datasets` has read before, without importing it."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    folder = Path(os.environ.get("HF_DATASETS_CACHE") or home / "datasets").expanduser()
    return {_letters(one.name) for one in folder.iterdir()} if folder.is_dir() else set()


def _letters(repo: str) -> str:
    # the library writes Owner/NameOf-It as owner___name_of-it, with the owner's capitals or without
    return "".join(character for character in repo.lower() if character.isalnum())
