"""An experiment: a table or a figure of the paper as one command, on a grid of runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import tyro

from ceil_jax.cli.first import check_first
from ceil_jax.cli.helptext import flag_registry
from ceil_jax.cli.main import command
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline.config import SCALES, RunConfig
from ceil_jax.store.hashing import digest
from ceil_jax.store.locking import write_files
from ceil_jax.tasks import TASKS
from harness.dry_run import dry_run
from harness.grid import Cell, Entry, Grid, records_of
from harness.panels import image
from harness.results_file import keep
from harness.table import ExperimentTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ExperimentOptions:
    """The options of an experiment besides those of a run."""

    tasks: tuple[str, ...] = ()
    """Names in TASKS; by default --task alone."""
    lms: tuple[str, ...] = ()
    """Names as in --lm, for experiments over several; by default --lm alone."""
    encoders: tuple[str, ...] = ()
    """Names as in --encoder, for experiments with a row for each; by default none besides
    --encoder."""
    method: tuple[str, ...] = ()
    """Only the rows of these methods, named as in `ceil-jax compare`; by default all."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of training, of random and of the order that skill_base takes; other methods run once.
    With several, such as 0 1 2, training is repeated for each, and intervals cover seeds too."""
    dry_run: bool = False
    """Print the stages that would run, their LM tokens and their time, and compute nothing."""
    record: Path | None = None
    """Add a line for every run to this results file, such as experiments/results.jsonl."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure."""

    name: str
    """The name of the experiment's script and of its files."""
    title: str
    entries: Callable[[RunConfig, ExperimentOptions], list[Entry]]
    """A function that returns the entries for one task; the options name the other tasks and LMs."""
    draw: Callable[[ExperimentTable], Figure]
    more: Callable[[Grid, ExperimentTable], ExperimentTable] | None = None
    """A function that adds measurements of the finished runs, such as latencies."""
    options: ExperimentOptions = ExperimentOptions()
    """Defaults of its options."""
    scales: Mapping[str, RunConfig] = field(default_factory=lambda: SCALES)
    """The settings of each value of --scale."""

    def run(self, config: RunConfig, options: ExperimentOptions) -> Path:
        """Compute what is not on disk, and return the folder with `name`.md, .csv, .png and .pdf.

        Args:
            config: the settings of every run.
            options: tasks, LMs, methods and seeds.

        Raises:
            UserError: an unknown task, no seeds, or all tasks failed.
        """
        if not options.seeds:
            raise UserError("--seeds: give at least one")
        configs = [
            replace(config, task=TASKS[task].name) for task in options.tasks or (config.task,)
        ]
        entries = [
            entry for config_of_task in configs for entry in self.entries(config_of_task, options)
        ]
        if options.method:
            entries = _of_methods(entries, options.method, configs)
        if options.dry_run:
            planned, failed = dry_run(entries, options.seeds)
            lines = [f"{task} cannot run: {message}" for task, message in failed.items()]
            print("\n".join([planned.text(), *lines]))
            if len(failed) == len(configs):
                raise UserError("no task can run")
            return config.out
        grid = Grid()
        measured, failed = grid.run(entries, options.seeds)
        if not measured:
            raise UserError(
                f"no task has numbers: {'; '.join(f'{t}: {m}' for t, m in failed.items())}"
            )
        if options.record is not None:
            keep(options.record, records_of(measured, self.name))
        about = (
            f"{measured[0].record.lm}, at most {config.shots} examples a prompt, encoder "
            f"{config.encoder}"
        )
        title = f"{self.title} ({about})"
        table = ExperimentTable(title, measured, failed)
        if self.more is not None:
            table = self.more(grid, table)
        key = [replace(config, out=Path()), replace(options, record=None)]
        folder = config.out / f"{self.name}-{digest(key)[:8]}"
        figure = self.draw(table)
        files = {"md": table.markdown().encode(), "csv": table.csv().encode()}
        files |= {suffix: image(figure, suffix) for suffix in ("png", "pdf")}
        write_files(folder, {f"{self.name}.{suffix}": content for suffix, content in files.items()})
        print(f"\n{table.markdown()}\nwritten: {folder}/{self.name}.md, .csv, .png, .pdf")
        if failed:
            raise UserError(f"without {', '.join(failed)}: {'; '.join(failed.values())}")
        return folder

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the script's command line and return its exit code.

        Args:
            arguments: the command line; by default that of the process.
        """

        def parsed(config: RunConfig, rest: list[str]) -> None:
            def parse(
                options: Annotated[ExperimentOptions, tyro.conf.arg(name="")] = self.options,
                config: Annotated[RunConfig, tyro.conf.arg(name="")] = config,
            ) -> tuple[ExperimentOptions, RunConfig]:
                return options, config

            options, config = tyro.cli(
                parse,
                prog=f"{self.name}.py",
                description=self.title,
                args=rest,
                registry=flag_registry(),
                compact_help=True,
            )
            further = [replace(config, lm=lm) for lm in options.lms]
            further += [replace(config, encoder=encoder) for encoder in options.encoders]
            for variant in (config, *further):
                for task in options.tasks or (variant.task,):
                    check_first(replace(variant, task=task))
            self.run(config, options)

        return command(self.name, parsed, arguments, self.scales)


def script(main: Callable[[list[str]], None]) -> NoReturn:
    """Run a script's main on the arguments of this process, and exit: with code 2 after a mistake
    of the user."""
    name = Path(sys.argv[0]).stem
    sys.exit(command(name, lambda _, arguments: main(arguments)))


def _of_methods(
    entries: Sequence[Entry], methods: Sequence[str], configs: Sequence[RunConfig]
) -> list[Entry]:
    """Return the entries of some methods. A row that the experiment does not have, such as a
    plugin's, gets an entry for each task."""
    there = {entry.cell.method for entry in entries}
    others = [method for method in methods if method not in there]
    for method in others:
        if method not in ROWS:
            raise unknown_name("method", method, [*there, *ROWS])
    return [
        *(entry for entry in entries if entry.cell.method in methods),
        *(
            Entry(config.row(method).title, config.task, Cell(config, method))
            for method in others
            for config in configs
        ),
    ]
