"""The command lines of Skill-KNN's comparison and analyses, which the scripts in `experiments/` run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import tyro

from ceil_jax.cli.helptext import asked_for_help
from ceil_jax.cli.main import command
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.pipeline.config import SCALES, RunConfig, SkillConfig
from ceil_jax.store.folder import write
from ceil_jax.store.hashing import digest
from ceil_jax.tasks import TASKS
from ceil_jax.training.config import EPRConfig

if TYPE_CHECKING:
    from ceil_jax.pipeline.graph import Opened
    from ceil_jax.pipeline.models import Models
    from skill_knn.comparison import SkillComparison

Config = Annotated[RunConfig, tyro.conf.arg(name="")]

DATABASES = ("spider", "dr_spider.db", "dr_spider.nlq", "dr_spider.sql")
SKILLS = ("skill_base", "skill_consistency", "skill_distinct")
DIVERSE = ("topk", "dpp", "skill_base", "skill_map", "target_skill", "target_skill_map")
LM = "SmolLM2-135M-Instruct"

_PAPER = RunConfig(encoder="all-mpnet-base-v2", shots=4)

SKILL_SCALES: dict[str, RunConfig] = {
    # a quick check
    "tiny": replace(_PAPER, limit=8, bank_limit=48, skills=SkillConfig(orders=2), epr=SCALES["tiny"].epr),
    # about 20 to 25 minutes on 2 idle CPU cores with a 135M LM, by the rates in README.md
    "small": replace(_PAPER, limit=40, bank_limit=200, epr=EPRConfig(epochs=4)),
    # the papers' banks and queries
    "paper": replace(_PAPER, epr=SCALES["paper"].epr),
}


@dataclass(frozen=True)
class SkillOptions:
    """Skill-KNN beside random, raw KNN and the oracles: scores, and measures of the selected examples."""

    tasks: tuple[str, ...]
    """SQL and COGS tasks."""
    method: tuple[str, ...] = (
        *("random", "topk", *SKILLS),
        *("target_knn", "target_skill", "target_sketch"),
    )
    """Rows of each task's table. METHOD@ENCODER compares with another encoder, such as
    topk@http://localhost:8000/v1#babbage."""
    lms: tuple[str, ...] = ()
    """The LMs that answer, as in --lm, each with rows of its own; by default --lm. One LM rewrites for all of them:
    --skills.lm, by default --lm."""
    scorer: str | None = None
    """The LM that scores what EPR is trained on; by default the one that answers."""
    seeds: int = 3
    """Number of seeds of random, whose row is their mean."""
    answer: bool = True
    """Let the LM answer; --no-answer only measures the selected examples, and the LM only rewrites."""
    config: Config = field(default_factory=RunConfig)

    def run(self, name: str) -> None:
        """Print and write a table for each task."""
        from ceil_jax.pipeline.models import Models
        from skill_knn.comparison import compare_skills, wins_table

        skills = replace(self.config.skills, lm=self.config.skills.lm or self.config.lm)
        models, tables, parts = Models(), [], []
        for lm in self.lms or (self.config.lm,):
            config = replace(self.config, lm=lm, skills=skills if self.lms else self.config.skills)
            for task in self.tasks:
                opened = _opened(config, task, models, self.method, self.scorer)
                tables.append(compare_skills(opened, self.method, seeds=self.seeds, answer=self.answer))
                parts.append(tables[-1].markdown())
                print("\n" + tables[-1].text())
        if self.answer:
            parts.append(wins_table(tables).markdown())
            print("\n" + wins_table(tables).text())
        _write(self, name, {f"{name}.md": "\n".join(parts).encode(), f"{name}.png": _drawn(tables)})


@dataclass(frozen=True)
class RecallOptions:
    """recall@N: how often a right answer is among the N most frequent samples."""

    tasks: tuple[str, ...]
    """SQL and COGS tasks."""
    method: tuple[str, ...] = ("random", "topk", "skill_consistency", "skill_distinct", "target_skill")
    """Rows of each task's table."""
    samples: int = 100
    """Number of samples per query."""
    temperature: float = 0.7
    """Sampling temperature."""
    config: Config = field(default_factory=RunConfig)

    def run(self, name: str) -> None:
        """Print and write a table for each task."""
        from ceil_jax.pipeline.models import Models
        from skill_knn.recall import recall_table

        models, parts = Models(), []
        for task in self.tasks:
            opened = _opened(self.config, task, models, self.method)
            parts.append(recall_table(opened, self.method, self.samples, self.temperature))
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
    """Draw only examples whose SQL is of this hardness; "" draws all. COGS has none, and all of it is drawn."""
    config: Config = field(default_factory=RunConfig)

    def run(self, name: str) -> None:
        """Write the figures."""
        from ceil_jax.pipeline.models import Models
        from skill_knn.figure import draw_spaces

        models = Models()
        pictures = {
            f"{name}-{task}.png": draw_spaces(
                _opened(self.config, task, models, ()), gold=self.gold, level=self.hardness
            )
            for task in self.tasks
        }
        _write(self, name, pictures)


Analysis = SkillOptions | RecallOptions | FigureOptions


def main(options: Analysis, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a script's command line and return its exit code.

    Args:
        options: the defaults, whose type says which analysis runs.
        name: the script's name.
        arguments: the command line; by default that of the process.
    """

    def parsed(config: RunConfig, rest: list[str]) -> None:
        kind = type(options)
        rest, registry = asked_for_help(rest)
        given = tyro.cli(
            kind,
            prog=f"{name}.py",
            description=kind.__doc__,
            args=rest,
            registry=registry,
            default=replace(options, config=config),
        )
        if given.config.task != config.task:
            raise UserError(f"--task {given.config.task}: this script takes --tasks instead")
        if not given.tasks:
            raise UserError("--tasks: give at least one")
        given.run(name)

    return command(name, parsed, arguments, SKILL_SCALES)


def run(options: Analysis, name: str) -> NoReturn:
    """Run a script on the command line of this process, and exit with its code."""
    sys.exit(main(options, name))


def _opened(
    config: RunConfig, task: str, models: Models, methods: Sequence[str], scorer: str | None = None
) -> Opened:
    from ceil_jax.pipeline.graph import Graph, open_run
    from ceil_jax.pipeline.methods import METHODS
    from ceil_jax.tasks.load import load_task
    from skill_knn.gold import register

    register()
    for row in methods:
        method, _, encoder = row.partition("@")
        if method not in METHODS:
            raise unknown_name("method", method, METHODS)
        if encoder and METHODS[method].encoder != "base":
            raise UserError(
                f"--method {row}: {method} does not compare with an untrained encoder; leave out @{encoder}"
            )
    if not TASKS[task].language:
        raise UserError(f"{task} is neither a SQL nor a COGS task, which these analyses need; use ceil-jax compare")
    loaded = load_task(task, config.data_dir, limit=config.limit, seed=config.data_seed, bank_limit=config.bank_limit)
    config = replace(config, task=task)
    by = Graph(replace(config, lm=scorer), loaded, models) if scorer else None
    return open_run(config, loaded, models, by)


def _drawn(tables: Sequence[SkillComparison]) -> bytes:
    """Return a PNG with a panel for each task: scores with intervals; without answers, one for each measure."""
    from harness.panels import image, panels

    from ceil_jax.report.plots import draw_points

    drawn = [(table, *panel) for table in tables for panel in table.panels()]
    figure, axes = panels(len(drawn), 6.2)
    for axis, (table, values, what) in zip(axes, drawn, strict=True):
        labels = [one.label for one in table.results]
        draw_points(axis, labels, values, [None] * len(labels), what)
        axis.set_title(" ".join([table.task.name, table.lm]).strip(), fontsize="medium")
    return image(figure)


def _write(options: Analysis, name: str, files: dict[str, bytes]) -> None:
    out = options.config.out
    folder = out / f"{name}-{digest(replace(options, config=replace(options.config, out=Path())))[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        write(folder / file, content)
        print(f"written: {folder / file}")
