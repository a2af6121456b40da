"""What a task's entry holds: where its rows come from, and how a row becomes an example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ceil_jax.tasks.base import Example, Template

Row = Mapping[str, Any]
"""One row of a split, under the hub's column names."""

NO_PAPER: Mapping[str, float] = MappingProxyType({})
PAPER_METHODS = ("random", "BM25", "Contriever", "SimCSE", "BERT", "DPP-BERT", "EPR", "CEIL")


def table2(*percent: float) -> Mapping[str, float]:
    """One column of CEIL's Table 2 (GPT-Neo 2.7B): method -> percent."""
    return MappingProxyType(dict(zip(PAPER_METHODS, percent, strict=True)))


@dataclass(frozen=True)
class Hub:
    """A dataset on the Hugging Face hub, at one revision."""

    repo: str
    config: str | None = None
    revision: str = "main"
    """A commit where one is known; `refs/convert/parquet` for a repository that is a script, which
    `datasets` no longer runs; `main` otherwise, which can move."""


@dataclass(frozen=True)
class TaskSpec:
    """What a dataset is, before any of it is read."""

    name: str
    template: Template
    metric: str
    """A name in `ceil_jax.metrics.METRICS`."""
    example: Callable[[str, Row], Example]
    """(id, row) -> Example; pure. A row it cannot read raises UserError, KeyError, TypeError or ValueError,
    which the loader turns into a message that names the file and the row."""
    columns: tuple[str, ...]
    """The columns `example` reads. Others are ignored."""
    folder: str = ""
    """The task's folder under a local `data_dir`."""
    hub: Hub | None = None
    embedded: Callable[[], Mapping[str, list[Row]]] | None = None
    """Makes the splits without a hub or a folder."""
    train: tuple[str, ...] = ("train",)
    """The splits that make up the bank, in order."""
    validation: tuple[str, ...] = ("validation",)
    """The splits that make up the queries, in order."""
    choices: tuple[str, ...] = ()
    """The verbalised labels in label order, where every example has the same."""
    max_new_tokens: int = 128
    stop: tuple[str, ...] = ("\n",)
    paper: Mapping[str, float] = field(default_factory=lambda: NO_PAPER)
    """CEIL's Table 2, method -> percent, where the paper has the task."""
    note: str = ""
    """What a reader of its numbers should know."""
