"""The evaluation of a comparison's rows: answers, metrics, costs and remarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ceil_jax.lm.price import Usage
from ceil_jax.methods.row import Row
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.answering import Metrics
from ceil_jax.pipeline.plan import Plan, plan
from ceil_jax.pipeline.records import Record, record_of_run, settings_of, texts_by_id
from ceil_jax.pipeline.rewriting import rewriting_note
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.speed import this_machine
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.pipeline.usage import prompt_tokens
from ceil_jax.store.cost import Cost
from ceil_jax.store.progress import command_bar
from ceil_jax.tasks import TASKS


@dataclass(frozen=True)
class Lineup:
    """The rows of a comparison in the order of its table, with their stages.

    Their stages are put together once, and a dry run, a reduction to some minutes and the
    evaluation use them.

    Args:
        run: computes stages that are not on disk.
        setup: the task and its settings.
        rows: the rows, with the setup's settings.
        metrics: the stage of the metrics of each row, which needs all of its other stages.
    """

    run: Run
    setup: Setup
    rows: tuple[Row, ...]
    metrics: tuple[Metrics, ...]

    @cached_property
    def plan(self) -> Plan:
        """The work of the stages that are not on disk, as found on first access.

        The LM is loaded if it has to answer.
        """
        return plan(self.run, self.metrics)


def lineup_of(run: Run, setup: Setup, rows: Sequence[Row]) -> Lineup:
    """Return the lineup of some rows, which puts their stages together.

    Nothing is computed; the encoder is loaded if a row compares vectors.

    Args:
        run: computes stages that are not on disk.
        setup: the task and its settings.
        rows: the rows, with the setup's settings.

    Raises:
        UserError: settings that contradict each other, a query without what the metric needs, or an
            encoder that cannot be loaded.
    """
    METRICS[setup.task.metric].check(setup.task.validation)
    metrics = [row_stages.metric(setup, row) for row in rows]
    return Lineup(run, setup, tuple(rows), tuple(metrics))


class Evaluation(NamedTuple):
    """Rows that were evaluated on one task, with all that tables and pages show."""

    setup: Setup
    rows: tuple[Row, ...]
    records: list[Record]
    """The record of each row."""
    usages: tuple[Usage, ...]
    """The tokens of a query of each row; empty if they were not counted."""
    costs: dict[str, tuple[str, Cost]]
    """The description and cost of each stage that the rows need, by key."""
    rewriting_note: str
    """A line on rewrites as skills (`rewriting.rewriting_note`); "" if nothing was rewritten."""


def evaluate_rows(lineup: Lineup, *, count_tokens: bool = False) -> Evaluation:
    """Evaluate several methods on the task's queries, in order, under one progress bar.

    What is not on disk is computed.

    Args:
        lineup: the rows with their stages.
        count_tokens: whether the tokens of prompts and answers are counted, for prices; false by
            default.

    Raises:
        UserError: a model that cannot be loaded; before any work.
    """
    run = lineup.run
    machine = this_machine()
    expected = {stage.key: max(0.1, machine.seconds(work)) for stage, work in lineup.plan.items()}
    with command_bar(expected):
        records = [
            _record(run, lineup.setup, row, metric)
            for row, metric in zip(lineup.rows, lineup.metrics, strict=True)
        ]
    usages: tuple[Usage, ...] = ()
    if count_tokens:
        answers = [metric.predictions for metric in lineup.metrics]
        usages = tuple(run.get(prompt_tokens(stage)) for stage in answers)
    return Evaluation(
        lineup.setup,
        lineup.rows,
        records,
        usages,
        costs=run.costs(lineup.metrics),
        rewriting_note=rewriting_note(run, lineup.metrics),
    )


def evaluate(run: Run, setup: Setup, row: Row) -> Record:
    """Return the record of a row (its scores and costs) on the task's queries.

    What is not on disk is computed.
    """
    return _record(run, setup, row, row_stages.metric(setup, row))


def _record(run: Run, setup: Setup, row: Row, metric: Metrics) -> Record:
    """The record of a row, from the stage of its metrics."""
    task = setup.task
    settings = settings_of(setup.config, row.method.chain if row.encodes else ())
    if task.name not in TASKS:  # the papers' tasks have one way of asking
        settings |= {
            "template": task.template.pattern,
            "separator": task.template.separator,
            "stop": [*task.stop],
        }
    training = StepsOf(setup).learnt(row.method).training if row.trains else None
    record = record_of_run(
        task=task.name,
        method=row.name,
        metric=metric.metric,
        lm=setup.lm.key,
        config=settings,
        predictions=metric.predictions,
        metrics=metric,
        texts=texts_by_id(setup.queries, setup.bank),
        row=row,
        training=training,
    )
    return run.get(record)
