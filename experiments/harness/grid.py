"""Grids of runs: the cells of tables, each a configuration and a method, computed once."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ceil_jax.distributed.machine import device
from ceil_jax.errors import UserError
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.evaluate import check, evaluate
from ceil_jax.pipeline.graph import Opened, open_run
from ceil_jax.pipeline.methods import METHODS, TRAININGS
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.records import Record
from ceil_jax.pipeline.stage import Run
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
    """The run whose trained encoders this one takes, if not its own."""

    @property
    def trains(self) -> bool:
        """Whether the method needs a trained encoder."""
        return METHODS[self.method].trains

    def repeats(self, seeds: Sequence[int]) -> list[Cell]:
        """Return this cell with each seed; with the first one where the method does not depend on
        it."""
        return [self.seeded(seed) for seed in (seeds if METHODS[self.method].seeded else seeds[:1])]

    def seeded(self, seed: int) -> Cell:
        """Return this cell with another seed, for the run that trains its encoders too."""
        other = tuple(replace(config, seed=seed) for config in self.trained_by)
        return Cell(replace(self.config, seed=seed), self.method, other)

    def essential(self) -> Cell:
        """Return this cell with defaults where the method does not depend on a setting: equal work,
        equal cell."""
        config, needs, default = self.config, METHODS[self.method].needs, RunConfig()
        needed, source = set(), METHODS[self.method].encoder or "base"
        while source in TRAININGS:
            needed.add(source)
            settings = getattr(config, source, TRAININGS[source].settings)
            if callable(settings) and TRAININGS[source].scored:
                return self  # they are made of other trainings' settings
            source = getattr(settings, "initial", "base")
        sets = any(TRAININGS[name].sets for name in needed)
        if not needs.shortlist and needs.trade_off is None and not sets:
            # neither the method nor a training tunes λ or takes a shortlist
            config = replace(config, shortlist=default.shortlist, trade_off=default.trade_off)
        others = [name for name in TRAININGS if name not in needed and hasattr(config, name)]
        config = replace(config, **{name: getattr(default, name) for name in others})
        if not METHODS[self.method].seeded:
            config = replace(config, seed=config.data_seed)
        elsewhere = self.trains and self.trained_by != (self.config,)
        return Cell(config, self.method, self.trained_by if elsewhere else ())


@dataclass(frozen=True)
class Entry:
    """A cell's place in a table."""

    row: str
    column: str
    cell: Cell
    paper: float | None = None
    """The paper's number, in percent."""
    least_bank: int = 0
    """The entry is left out of tasks with fewer training examples."""

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.cell.config.task


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured(Runs):
    """An entry's runs, one for each seed; a single one where it depends on none."""

    records: Sequence[Published] = field(kw_only=False)
    entry: Entry

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds."""
        return tuple(record.config["seed"] for record in self.records)


def records_of(measured: Sequence[Measured], experiment: str) -> Iterator[Published]:
    """Yield a record with its place in a results file for every run behind an experiment's numbers.

    Args:
        measured: the experiment's entries.
        experiment: its name.
    """
    for one in measured:
        for record in one.records:
            interval = Runs((record,)).interval
            written = (record.root / record.name / DONE).stat().st_mtime
            yield replace(
                record,
                experiment=experiment,
                row=one.entry.row,
                column=one.entry.column,
                low=interval.low,
                high=interval.high,
                device=record.device or device(),
                date=datetime.datetime.fromtimestamp(written, datetime.UTC).date().isoformat(),
            )


class Grid:
    """Runs that share models, tasks and stages.

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

    def open(self, cell: Cell) -> Opened:
        """Return the run and the stages of a cell."""
        key = ("graph", cell.config, cell.trained_by)
        run, graph = self.models.once(key, lambda: self._opened(cell.config, cell.trained_by))
        return Opened(self._runs.setdefault(cell.config.out, run), graph)

    def _opened(self, config: RunConfig, trained_by: tuple[RunConfig, ...]) -> Opened:
        others = [self._opened(one, ()).graph for one in trained_by if one != config]
        return open_run(config, self.task(config), self.models, *others)

    def applies(self, entry: Entry) -> bool:
        """Return whether the entry's task has enough training examples for it."""
        return len(self.task(entry.cell.config).train) >= entry.least_bank

    def evaluate(self, cell: Cell) -> Record:
        """Return the record of a cell's evaluation."""
        return evaluate(*self.open(cell), cell.method)

    def measure(self, entry: Entry, seeds: Sequence[int]) -> Measured:
        """Return the entry's number over all seeds; over the first one where it depends on none."""
        cells = entry.cell.repeats(seeds)
        check(self.open(cells[0]).graph, [entry.cell.method])
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
                log.warning("%s failed, the others go on: %s", entry.task, error)
        return measured, failed
