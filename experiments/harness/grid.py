"""Grids of runs: the cells of tables, each with a configuration and a method, and each computed once."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ceil_jax.distributed.machine import device
from ceil_jax.errors import UserError
from ceil_jax.methods.base import Method
from ceil_jax.methods.registry import ROWS
from ceil_jax.methods.row import Row
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.evaluate import evaluate, lineup_of
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.records import Record
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import Session, open_run
from ceil_jax.report.runs import Runs
from ceil_jax.store.folder import DONE
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.load import load_task
from harness.results_file import Published

log = logging.getLogger(__name__)


class Cell(NamedTuple):
    """One run of one method; `config.seed` is its seed."""

    config: RunConfig
    method: str
    trained_by: tuple[RunConfig, ...] = ()
    """The run whose trained encoders this one uses, if it does not train its own."""

    @property
    def row(self) -> Row:
        """The row of the cell, with the configuration's settings."""
        return self.config.row(self.method)

    @property
    def trains(self) -> bool:
        """Whether the method needs a trained encoder."""
        return self.row.trains

    def repeats(self, seeds: Sequence[int]) -> list[Cell]:
        """Return this cell with each seed; only with the first one if the method does not depend on the seed."""
        return [self.seeded(seed) for seed in (seeds if ROWS[self.method].seeded else seeds[:1])]

    def seeded(self, seed: int) -> Cell:
        """Return this cell with another seed, which also applies to the run that trains its encoders."""
        other = tuple(replace(config, seed=seed) for config in self.trained_by)
        return Cell(replace(self.config, seed=seed), self.method, other)

    def work(self) -> Work:
        """Return everything that the cell's number depends on: equal work gives an equal number."""
        row = self.row
        config = replace(self.config, methods=())
        default = RunConfig()
        sets = row.encodes and any(method.learns_sets for method in row.method.chain)
        if not row.needs.shortlist and row.needs.trade_off is None and not sets:
            # neither the retriever nor a training tunes λ or takes a shortlist
            config = replace(config, shortlist=default.shortlist, trade_off=default.trade_off)
        if not row.seeded:
            config = replace(config, seed=config.data_seed)
        elsewhere = row.trains and self.trained_by != (self.config,)
        return Work(
            self.method,
            config,
            row.method if row.encodes else None,
            self.trained_by if elsewhere else (),
        )


class Work(NamedTuple):
    """Everything that a number depends on: a row's name, the settings, the method with those that it
    starts from, and the runs whose encoders it uses."""

    row: str
    config: RunConfig
    method: Method | None
    trained_by: tuple[RunConfig, ...]


@dataclass(frozen=True)
class Entry:
    """A cell and its place in a table."""

    row: str
    column: str
    cell: Cell
    paper: float | None = None
    """The paper's number, in percent."""
    least_bank: int = 0
    """The smallest number of training examples of a task for which the entry is measured."""

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.cell.config.task


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured(Runs):
    """The runs of an entry, one for each seed, or a single one if it does not depend on the seed."""

    records: Sequence[Published] = field(kw_only=False)
    entry: Entry

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds."""
        return tuple(record.config["seed"] for record in self.records)


def records_of(measured: Sequence[Measured], experiment: str) -> Iterator[Published]:
    """Yield the record of every run behind an experiment's numbers, with its place in a results
    file.

    Args:
        measured: the experiment's entries.
        experiment: its name.
    """
    for measurement in measured:
        for record in measurement.records:
            interval = Runs((record,)).interval
            written = (record.root / record.name / DONE).stat().st_mtime
            yield replace(
                record,
                experiment=experiment,
                row=measurement.entry.row,
                column=measurement.entry.column,
                low=interval.low,
                high=interval.high,
                device=record.device or device(),
                date=datetime.datetime.fromtimestamp(written, datetime.UTC).date().isoformat(),
            )


class Grid:
    """Runs that share models, tasks and stages, as the cells of tables.

    Args:
        models: the LMs and encoders of all runs.
    """

    def __init__(self, models: Models | None = None) -> None:
        self.models = models or Models()
        self._runs: dict[Path, Run] = {}

    def task(self, config: RunConfig) -> Task:
        """Return the configuration's task, as `ceil-jax compare` loads it."""
        where = config.task, config.data_dir, config.limit, config.data_seed, config.bank_limit
        return self.models.once(
            ("task", *where), lambda: load_task(*where[:4], bank_limit=where[4])
        )

    def open(self, cell: Cell) -> Session:
        """Return the run and the setup of a cell."""
        key = ("setup", cell.config, cell.trained_by)
        run, setup = self.models.once(key, lambda: self._session(cell.config, cell.trained_by))
        return Session(self._runs.setdefault(cell.config.out, run), setup)

    def _session(self, config: RunConfig, trained_by: tuple[RunConfig, ...]) -> Session:
        others = [self._session(other, ()).setup for other in trained_by if other != config]
        return open_run(config, self.task(config), self.models, *others)

    def applies(self, entry: Entry) -> bool:
        """Return whether the entry's task has enough training examples for it."""
        return len(self.task(entry.cell.config).train) >= entry.least_bank

    def evaluate(self, cell: Cell) -> Record:
        """Return the record of a cell, which is evaluated if needed."""
        run, setup = self.open(cell)
        return evaluate(run, setup, setup.row(cell.method))

    def measure(self, entry: Entry, seeds: Sequence[int]) -> Measured:
        """Return the runs of an entry for all seeds, or for the first one if it does not depend on the seed."""
        cells = entry.cell.repeats(seeds)
        run, setup = self.open(cells[0])
        # settings that contradict each other are found before any work
        lineup_of(run, setup, [setup.row(entry.cell.method)])
        records = [
            Published(
                **vars(self.evaluate(cell)),
                trained_by=tuple((by.task, by.lm) for by in cell.trained_by),
            )
            for cell in cells
        ]
        return Measured(records, paper=entry.paper, entry=entry)

    def run(
        self, entries: Iterable[Entry], seeds: Sequence[int]
    ) -> tuple[list[Measured], dict[str, str]]:
        """Measure all entries. A task that fails does not stop the others.

        Args:
            entries: the cells of a table.
            seeds: of training and of what else is drawn.

        Returns:
            The numbers in the order of the entries, without entries that need a larger bank; and
            the error message of each task that failed.
        """
        measured: list[Measured] = []
        failed: dict[str, str] = {}
        for entry in entries:
            if entry.task in failed:
                continue
            try:
                if self.applies(entry):
                    measured.append(self.measure(entry, seeds))
            except UserError as error:
                failed[entry.task] = str(error)
                log.warning("%s failed; the others continue: %s", entry.task, error)
        return measured, failed
