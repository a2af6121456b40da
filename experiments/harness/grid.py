"""Grids of runs: the cells of tables, each a configuration and a method, computed once or, in a dry run, planned."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ceil_jax.distributed.machine import device
from ceil_jax.errors import UserError
from ceil_jax.pipeline.compose import joint_trainer, open_run
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS, TRAINED, trains
from ceil_jax.pipeline.models import KEPT, Kept, Models
from ceil_jax.pipeline.records import Evaluation, Record
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.trained import Trainer
from ceil_jax.report.dry_run import Plan, no_guessed_trade_offs
from ceil_jax.report.runs import Runs
from ceil_jax.report.stand_ins import CountingModels
from ceil_jax.store.stage import DONE
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.load import load_task

log = logging.getLogger(__name__)


class Cell(NamedTuple):
    """One run of one method; `config.seed` is its seed."""

    config: RunConfig
    method: str
    trained_by: tuple[RunConfig, ...] = ()
    """The run whose trained encoders this one takes, if not its own; with several runs, the encoders are trained on
    the scores of all of them."""

    @property
    def trains(self) -> bool:
        """Whether the method needs a trained encoder."""
        return trains(self.method)

    def seeded(self, seed: int) -> Cell:
        """Return this cell with another seed of training, for the run that trains its encoders too."""
        other = tuple(replace(config, seed=seed) for config in self.trained_by)
        return Cell(replace(self.config, seed=seed), self.method, other)

    def essential(self) -> Cell:
        """Return this cell with defaults where the method does not depend on a setting: equal work, equal cell."""
        config, method = self.config, METHODS[self.method]
        source, needs = method.encoder, method.needs
        if not needs.shortlist and needs.trade_off is None and source != "ceil":
            # neither the method nor CEIL's training tunes λ or takes a shortlist
            config = replace(config, shortlist=RunConfig.shortlist, trade_off=RunConfig.trade_off)
        needed = {source, config.ceil.initial if source == "ceil" else None}
        if source == "ceil" and config.ceil.scores == "singles":
            needed.add("epr")
        if source != "ceil":
            config = replace(config, ceil_map_trade_off=None)
        default = RunConfig()
        if config.answers == 1:
            config = replace(config, answers_by=default.answers_by)
        if config.answers == 1 or config.answers_by != "samples":
            config = replace(config, temperature=default.temperature)
        config = replace(config, **{name: getattr(default, name) for name in TRAINED if name not in needed})
        if not self.trains:
            return Cell(replace(config, seed=config.data_seed), self.method)
        return Cell(config, self.method, () if self.trained_by == (self.config,) else self.trained_by)


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
    """An entry's runs, one for each seed of training; a single one where nothing is trained."""

    entry: Entry

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of training."""
        return tuple(record.config["seed"] for record in self.records)


def records_of(measured: Sequence[Measured], experiment: str) -> Iterator[Record]:
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
        make: (config, task, models, trainer) → run.
    """

    def __init__(self, models: Models | None = None, make: Callable[..., Run] = open_run) -> None:
        self.models = models or Models()
        self._make = make
        self._tasks: Kept[Task] = Kept()
        self._runs: Kept[Run] = Kept(KEPT)
        self._trainers: Kept[Trainer] = Kept(KEPT)
        self._evaluations: Kept[Evaluation] = Kept()

    def task(self, config: RunConfig) -> Task:
        """Return the configuration's task, as `ceil-jax compare` loads it."""
        where = config.task, config.data_dir, config.limit, config.data_seed, config.bank_limit
        return self._tasks.get(where, lambda: load_task(*where[:4], bank_limit=where[4]))

    def run_of(self, config: RunConfig, trained_by: tuple[RunConfig, ...] = ()) -> Run:
        """Return the run of a configuration, with encoders of its own or of the runs it is trained by."""

        def opened() -> Run:
            return self._make(config, self.task(config), self.models, self._trainer(trained_by))

        return self._runs.get((config, trained_by), opened)

    def _trainer(self, configs: tuple[RunConfig, ...]) -> Trainer | None:
        if not configs:
            return None
        if len(configs) == 1:
            return self.run_of(configs[0]).trainer
        return self._trainers.get(
            configs, lambda: joint_trainer([self.run_of(config).trainer for config in configs])
        )

    def applies(self, entry: Entry) -> bool:
        """Return whether the entry's task has enough training examples for it."""
        return len(self.task(entry.cell.config).train) >= entry.least_bank

    def evaluate(self, cell: Cell) -> Evaluation:
        """Return the cell's evaluation, computed when it is first asked for."""
        own = cell.essential()
        return self._evaluations.get(
            own, lambda: self.run_of(own.config, own.trained_by).evaluate(own.method)
        )

    def measure(self, entry: Entry, seeds: Sequence[int]) -> Measured:
        """Return the entry's number over all seeds; over the first one where nothing is trained."""
        cell = entry.cell
        used = seeds if cell.trains else seeds[:1]
        runs = [cell.seeded(seed).essential() for seed in used]
        self.run_of(runs[0].config, runs[0].trained_by).load([cell.method])
        records = [
            replace(self.evaluate(run).record, trained_by=tuple((by.task, by.lm) for by in run.trained_by))
            for run in runs
        ]
        return Measured(records, paper=entry.paper, entry=entry)

    def run(self, entries: Iterable[Entry], seeds: Sequence[int]) -> tuple[list[Measured], dict[str, str]]:
        """Measure all entries. A task that fails does not stop the others.

        Args:
            entries: the cells of a table.
            seeds: seeds of training.

        Returns:
            The numbers in the order of the entries, without entries that need a larger bank; and the error message of
            each task that failed.
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


@no_guessed_trade_offs()
def plan(entries: Sequence[Entry], seeds: Sequence[int]) -> Plan:
    """Return the stages that the entries would need with these seeds of training. Nothing is written.

    Args:
        entries: cells of a table.
        seeds: seeds of training; only the first where nothing is trained.
    """
    found = Plan()
    grid = Grid(CountingModels(), found.open)
    for entry in entries:
        cell, task = entry.cell, entry.task
        found.models.setdefault(f"encoder {cell.config.encoder}, LM {cell.config.lm}")
        for seed in seeds if cell.trains else seeds[:1]:
            if task in found.failed:
                continue
            try:
                if not grid.applies(entry):
                    continue
                essential = cell.seeded(seed).essential()
                run = grid.run_of(essential.config, essential.trained_by)
                run.answers(essential.method)
            except UserError as error:
                found.failed[task] = str(error)
    return found
