"""Putting a run together from its parts, and one trainer together from several runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.metrics import metric_named
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import (
    Encoders,
    Learn,
    Models,
    RunModels,
    RunPrompts,
    embed_on_disk,
    learn_on_disk,
)
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.search import Search, TextViews, choosing
from ceil_jax.pipeline.trained import Trainer
from ceil_jax.pipeline.training_data import TaskSupervision
from ceil_jax.skills.rewriter import Rewriter
from ceil_jax.store.rows import Cost
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Task
from ceil_jax.training.candidates import ScoredSets, join_tasks
from ceil_jax.training.config import CEILConfig


class Tools(NamedTuple):
    """The parts of a run that do its work; a dry run takes other ones (`report.stand_ins`)."""

    store: Store
    search: Search
    learn: Learn


def tools_on_disk(config: RunConfig, models: Models) -> Tools:
    """Return the tools that do the work and keep it in the run's folder."""
    store = Store(config.out)
    embed = partial(embed_on_disk, store)
    search = Search(embed, choosing(embed, config.index))
    return Tools(store, search, partial(learn_on_disk, store, models, config.encoder))


def open_run(
    config: RunConfig,
    task: Task,
    models: Models | None = None,
    trainer: Trainer | None = None,
    *,
    rewriter: Rewriter | None = None,
    tools: Tools | None = None,
) -> Run:
    """Put a run together from its configuration. Nothing is computed and no model is loaded yet.

    Args:
        config: everything that a number depends on besides the task's data.
        task: the bank, the queries, the template and the metric.
        models: shared with other runs; by default the run's own.
        trainer: another run's, or the joint one of several (`joint_trainer`), whose trained encoders this run takes;
            by default the run's own.
        rewriter: another run's rewriter of skills, to share what it has counted.
        tools: what the run works with; by default the ones that do the work.

    Returns:
        The run.

    Raises:
        UserError: an unknown metric, or as many shots as the bank has examples.

    Example:
        >>> from ceil_jax import load_task
        >>> run = open_run(RunConfig(encoder="tiny", lm="tiny"), load_task("scan.simple", limit=4, bank_limit=50))
        >>> len(run.retrieve("bm25", run.task.validation))
        4
    """
    for metric in (task.metric, *task.more_metrics):
        metric_named(metric)  # a misspelt name ends here, before the LM has answered anything
    if not 0 <= config.shots < len(task.train):
        raise UserError(
            f"--shots {config.shots}: the bank of {task.name} has {len(task.train)} examples; "
            f"ask for 0 to {len(task.train) - 1}"
        )
    if (
        config.answers > 1
        and config.answers_by == "samples"
        and task.validation
        and task.validation[0].choices
    ):
        raise UserError(
            f"--answers {config.answers}: {task.name} chooses among given answers, so there is nothing to sample; "
            "take --answers-by orders"
        )
    models = models or Models()
    store, search, learn = tools or tools_on_disk(config, models)
    costs: dict[str, Cost] = {}
    own = RunModels(config, models, search.embed)
    views = TextViews(config, task, own, store, costs, rewriter)
    data = TaskSupervision(config, task, own, views, RunPrompts(config, task, own), search, store, costs)
    return Run(own, store, data, trainer or Trainer(config, data, own, learn, costs))


class JointSupervision:
    """The training data of several runs, one after another, for one retriever for all their tasks.

    Args:
        trainers: the runs' trainers.

    Raises:
        UserError: --text skill, whose demonstrations are a task's own.
    """

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        self.trainers = trainers
        text = trainers[0].config.text
        if text != "input":
            raise UserError(f"--text {text}: tasks are trained on together with --text input only")

    @cached_property
    def context(self) -> Sequence[Example]:
        """The banks as trained encoders see them."""
        return [example for trainer in self.trainers for example in trainer.data.context]

    def seen(self, examples: Sequence[Example]) -> Sequence[Example]:
        """Return the examples: their inputs are what retrievers see."""
        return examples

    @cached_property
    def tst(self) -> ScoredSets:
        """TST's training queries and candidates of all tasks."""
        return self._joined([trainer.data.tst for trainer in self.trainers])

    @cached_property
    def epr(self) -> ScoredSets:
        """EPR's training queries and candidates of all tasks."""
        return self._joined([trainer.data.epr for trainer in self.trainers])

    def ceil(self, initial: Callable[[], Encoders], config: CEILConfig) -> ScoredSets:
        """Return CEIL's training queries and sets of all tasks, each drawn with its own run's encoder."""
        return self._joined([trainer.ceil_scores for trainer in self.trainers])

    def trade_off(self, source: str, encoders: Callable[[], Encoders]) -> float:
        """Return the middle one of the tasks' λ."""
        given = sorted(float(trainer.ceil_config.trade_off) for trainer in self.trainers)
        return given[len(given) // 2]

    def _joined(self, parts: Sequence[ScoredSets]) -> ScoredSets:
        return join_tasks(parts, [len(trainer.data.context) for trainer in self.trainers])


def joint_trainer(trainers: Sequence[Trainer]) -> Trainer:
    """Return the trainer of one retriever for the tasks of several runs; the first one's settings apply."""
    lead = trainers[0]
    return Trainer(lead.config, JointSupervision(trainers), lead.models, lead.learn, {})
