"""The command lines of Skill-KNN's analyses, which scripts in `experiments/` run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import tyro

from ceil_jax.cli.helptext import flag_registry
from ceil_jax.cli.main import command
from ceil_jax.errors import UserError
from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.setup import Session, open_run
from ceil_jax.store.hashing import digest
from ceil_jax.store.locking import write
from ceil_jax.tasks.load import load_task
from skill_knn.comparison import NAMES, SKILL_SCALES, check, rewriting
from skill_knn.figure import draw_measures, draw_spaces
from skill_knn.recall import recall_table
from skill_knn.selection import selected, selection_table

Config = Annotated[RunConfig, tyro.conf.arg(name="")]


@dataclass(frozen=True)
class SelectedOptions:
    """Compute measures of the selected examples; the LM only rewrites inputs, and answers nothing."""

    tasks: tuple[str, ...]
    """SQL and COGS tasks."""
    method: tuple[str, ...] = NAMES
    """Rows of each task's table."""
    config: Config = field(default_factory=RunConfig)

    def run(self, name: str) -> None:
        """Print and write a table for each task, and a figure."""
        models = Models()
        measures = {}
        parts = []
        for task in self.tasks:
            run, setup = _session(self.config, task, models, self.method)
            chosen = {
                ROWS[name].label: row_stages.choice(setup, setup.row(name)) for name in self.method
            }
            measures[task] = {
                label: selected(setup.task, run.get(stage)) for label, stage in chosen.items()
            }
            table = selection_table(measures[task], task)
            parts += [
                table.markdown(),
                *(f"{note}\n" for note in rewriting(run, list(chosen.values()))),
            ]
        print("\n".join(parts))
        _write(
            self,
            name,
            {f"{name}.md": "\n".join(parts).encode(), f"{name}.png": draw_measures(measures)},
        )


@dataclass(frozen=True)
class RecallOptions:
    """Compute recall@N: how often a right answer is among the N most frequent samples."""

    tasks: tuple[str, ...]
    """SQL and COGS tasks."""
    method: tuple[str, ...] = (
        "random",
        "topk",
        "skill_consistency",
        "skill_distinct",
        "target_skill",
    )
    """Rows of each task's table."""
    samples: int = 100
    """Number of samples per query."""
    temperature: float = 0.7
    """Sampling temperature."""
    config: Config = field(default_factory=RunConfig)

    def run(self, name: str) -> None:
        """Print and write a table for each task."""
        models = Models()
        parts = []
        for task in self.tasks:
            session = _session(self.config, task, models, self.method)
            parts.append(recall_table(session, self.method, self.samples, self.temperature))
            print("\n" + parts[-1])
        _write(self, name, {f"{name}.md": "\n".join(parts).encode()})


@dataclass(frozen=True)
class FigureOptions:
    """t-SNE of raw inputs and of skills side by side: the bank in grey, the queries in orange."""

    tasks: tuple[str, ...]
    """SQL and COGS tasks, one figure for each."""
    gold: bool = False
    """Use skills written from the gold outputs (an oracle) instead of the LM's."""
    hardness: Literal["", "easy", "medium", "hard", "extra"] = "medium"
    """Draw only examples whose SQL is of this hardness; "" draws all. COGS has none, and all of it
    is drawn."""
    config: Config = field(default_factory=RunConfig)

    def run(self, name: str) -> None:
        """Write the figures."""
        models = Models()
        pictures = {
            f"{name}-{task}.png": draw_spaces(
                _session(self.config, task, models, ()), gold=self.gold, level=self.hardness
            )
            for task in self.tasks
        }
        _write(self, name, pictures)


Analysis = SelectedOptions | RecallOptions | FigureOptions


def main(options: Analysis, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a script's command line and return its exit code.

    Args:
        options: the defaults, whose type says which analysis runs.
        name: the script's name.
        arguments: the command line; by default that of the process.
    """

    def parsed(config: RunConfig, rest: list[str]) -> None:
        kind = type(options)
        chosen = tyro.cli(
            kind,
            prog=f"{name}.py",
            description=kind.__doc__,
            args=rest,
            registry=flag_registry(),
            compact_help=True,
            default=replace(options, config=config),
        )
        if chosen.config.task != config.task:
            raise UserError(f"--task {chosen.config.task}: this script takes --tasks instead")
        if not chosen.tasks:
            raise UserError("--tasks: give at least one")
        chosen.run(name)

    return command(name, parsed, arguments, SKILL_SCALES)


def run(options: Analysis, name: str) -> NoReturn:
    """Run a script on the command line of this process, and exit with its code."""
    sys.exit(main(options, name))


def _session(config: RunConfig, task: str, models: Models, methods: Sequence[str]) -> Session:
    check(task, methods)
    loaded = load_task(
        task,
        config.data_dir,
        limit=config.limit,
        seed=config.data_seed,
        bank_limit=config.bank_limit,
    )
    return open_run(replace(config, task=task), loaded, models)


def _write(options: Analysis, name: str, files: dict[str, bytes]) -> None:
    out = options.config.out
    folder = (
        out / f"{name}-{digest(replace(options, config=replace(options.config, out=Path())))[:8]}"
    )
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        write(folder / file, content)
        print(f"written: {folder / file}")
