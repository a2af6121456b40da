"""Skill-KNN's comparison and analyses as command lines: what the scripts in `experiments/` run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ceil_jax.cli.helptext import ONE_PARAGRAPH
from ceil_jax.cli.main import command
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.pipeline.config import RunConfig, SkillConfig
from ceil_jax.store.hashing import digest
from ceil_jax.store.stage import Stage
from ceil_jax.tasks import task_spec

if TYPE_CHECKING:
    from ceil_jax.pipeline.models import Models
    from ceil_jax.pipeline.run import Pipeline
    from skill_knn.comparison import SkillComparison

Config = Annotated[RunConfig, tyro.conf.arg(name="")]

_PAPER = RunConfig(encoder="all-mpnet-base-v2", shots=4)

SKILL_SCALES: dict[str, RunConfig] = {
    # does it run?
    "tiny": replace(_PAPER, limit=8, bank_limit=48, skills=SkillConfig(orders=2)),
    # meant for 20 to 25 minutes on 2 idle CPU cores with a 135M LM, by the rates in experiments/cogs.py
    "small": replace(_PAPER, limit=40, bank_limit=200),
    # the papers' banks and queries
    "paper": _PAPER,
}


@dataclass(frozen=True)
class SkillOptions:
    """Skill-KNN beside random, raw KNN and the oracles: scores, and what was selected."""

    tasks: tuple[str, ...]
    """SQL and COGS tasks."""
    retriever: tuple[str, ...] = (
        *("random", "topk", "skill_base", "skill_consistency", "skill_distinct"),
        *("target_knn", "target_skill", "target_sketch"),
    )
    """Rows of each task's table."""
    seeds: int = 3
    """Of random, whose row is the mean over them."""
    answer: bool = True
    """--no-answer measures what is selected, and asks the LM for rewrites only."""
    config: Config = field(default_factory=RunConfig)

    def run(self, name: str) -> None:
        """Print and write a table a task."""
        from ceil_jax.pipeline.models import Models
        from skill_knn.comparison import compare_skills, csv_of

        models, tables = Models(), []
        for task in self.tasks:
            pipeline = _pipeline(self.config, task, models, self.retriever)
            tables.append(compare_skills(pipeline, self.retriever, seeds=self.seeds, answer=self.answer))
            print("\n" + tables[-1].text())
        files = {
            f"{name}.md": "\n".join(table.markdown() for table in tables).encode(),
            f"{name}.csv": csv_of(tables).encode(),
            f"{name}.png": _drawn(tables),
        }
        _write(self, name, files)


@dataclass(frozen=True)
class RecallOptions:
    """recall@N: is a right answer among the N most frequent of many samples?"""

    tasks: tuple[str, ...]
    """SQL and COGS tasks."""
    retriever: tuple[str, ...] = ("random", "topk", "skill_consistency", "target_skill")
    """Rows of each task's table."""
    samples: int = 100
    """Of every query; more of them go on from those that are there."""
    temperature: float = 0.7
    """Of sampling."""
    config: Config = field(default_factory=RunConfig)

    def run(self, name: str) -> None:
        """Print and write a table a task."""
        from ceil_jax.pipeline.models import Models
        from skill_knn.recall import recall_table

        models, parts = Models(), []
        for task in self.tasks:
            pipeline = _pipeline(self.config, task, models, self.retriever)
            parts.append(recall_table(pipeline, self.retriever, self.samples, self.temperature))
            print("\n" + parts[-1])
        _write(self, name, {f"{name}.md": "\n".join(parts).encode()})


@dataclass(frozen=True)
class FigureOptions:
    """t-SNE of raw inputs and of skills side by side: the bank in grey, the queries in orange."""

    tasks: tuple[str, ...]
    """SQL and COGS tasks, a figure each."""
    gold: bool = False
    """Skills written from the gold answers (an oracle) in place of the LM's."""
    config: Config = field(default_factory=RunConfig)

    def run(self, name: str) -> None:
        """Write the figures."""
        from ceil_jax.pipeline.models import Models
        from skill_knn.figure import draw_spaces

        models = Models()
        pictures = {
            f"{name}-{task}.png": draw_spaces(_pipeline(self.config, task, models, ()), gold=self.gold)
            for task in self.tasks
        }
        _write(self, name, pictures)


Options = SkillOptions | RecallOptions | FigureOptions


def main(options: Options, name: str, arguments: Sequence[str] | None = None) -> int:
    """A script's command line with these defaults; 0, or 2 after one line about what the user can mend."""

    def run(config: RunConfig, rest: list[str]) -> None:
        kind = type(options)
        given = tyro.cli(
            kind,
            prog=f"{name}.py",
            description=kind.__doc__,
            args=rest,
            registry=ONE_PARAGRAPH,
            default=replace(options, config=config),
        )
        if given.config.task != config.task:
            raise UserError(f"--task {given.config.task}: this script takes --tasks, one or several")
        if not given.tasks:
            raise UserError("--tasks: give at least one")
        given.run(name)

    return command(name, run, arguments, SKILL_SCALES)


def _pipeline(config: RunConfig, task: str, models: Models, retriever: Sequence[str]) -> Pipeline:
    from ceil_jax.pipeline.methods import METHODS
    from ceil_jax.pipeline.run import Pipeline
    from ceil_jax.tasks.load import load_task

    for method in retriever:
        if method not in METHODS:
            raise unknown_name("retriever", method, METHODS)
    if not task_spec(task).language:
        raise UserError(
            f"{task} is neither SQL nor COGS, which the analyses of skills need; try ceil-jax compare"
        )
    loaded = load_task(
        task, config.data_dir, limit=config.limit, seed=config.data_seed, bank_limit=config.bank_limit
    )
    return Pipeline(replace(config, task=task), loaded, models)


def _drawn(tables: Sequence[SkillComparison]) -> bytes:
    """Scores with their intervals, or sketch overlaps where nothing was answered, a panel a task."""
    from ceil_jax.report.plots import draw_points, image, panels

    figure, axes = panels(len(tables), 6.2)
    for panel, table in zip(axes, tables, strict=True):
        labels, values, what = table.points()
        draw_points(panel, labels, values, [None] * len(labels), what)
        panel.set_title(table.task.name, fontsize="medium")
    return image(figure)


def _write(options: Options, name: str, files: dict[str, bytes]) -> None:
    out = options.config.out
    folder = out / f"{name}-{digest(replace(options, config=replace(options.config, out=Path())))[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        Stage(folder).write(file, content)
        print(f"written: {folder / file}")
