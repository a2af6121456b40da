"""The evaluation of rows: their answers, the metric, the cost, and remarks on these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ceil_jax.distributed.machine import device
from ceil_jax.lm.price import Usage
from ceil_jax.methods.row import Row
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline import method_stages, row_stages
from ceil_jax.pipeline.answering import Measurement, Predictions
from ceil_jax.pipeline.plan import plan, this_machine
from ceil_jax.pipeline.records import Record, RecordOfRun, Texts, settings_of
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.stage import Run
from ceil_jax.pipeline.usage import PromptTokens
from ceil_jax.pipeline.views import failures
from ceil_jax.store.cost import Cost
from ceil_jax.store.progress import command_bar
from ceil_jax.tasks import TASKS


class Evaluation(NamedTuple):
    """Rows that were evaluated on one task: all that tables and pages show of them."""

    records: list[Record]
    """The record of each row."""
    usages: tuple[Usage, ...]
    """The tokens of a query of each row; empty if they were not counted."""
    costs: dict[str, tuple[str, Cost]]
    """The description and cost of each stage that the rows need, by key."""
    failures: str
    """A line on failed rewrites (`views.failures`); "" if nothing was rewritten."""


def evaluate_rows(
    run: Run, setup: Setup, rows: Sequence[Row], *, count_tokens: bool = False
) -> Evaluation:
    """Evaluate rows on the task's queries, in order, under one progress bar.

    Args:
        run: computes what is not on disk.
        setup: the task and its settings.
        rows: the rows, with the setup's settings.
        count_tokens: whether the tokens of prompts and answers are counted, for prices; false by
            default.

    Raises:
        UserError: settings that contradict each other, or a model that cannot be loaded; before any
            work.
    """
    targets = check(run, setup, rows)
    work_of_stages = plan(run, targets)
    machine = this_machine()
    expected = {
        stage.key: max(0.1, machine.seconds(work)) for stage, work in work_of_stages.items()
    }
    with command_bar(expected):
        records = [evaluate(run, setup, row) for row in rows]
    usages: tuple[Usage, ...] = ()
    if count_tokens:
        answers = [target.predictions for target in targets]
        usages = tuple(run.get(PromptTokens(stage)) for stage in answers)
    costs = run.costs(targets)
    return Evaluation(records, usages, costs, failures(run, targets))


def evaluate(run: Run, setup: Setup, row: Row) -> Record:
    """Return the record of a row on the task's queries; what is not on disk is computed."""
    task = setup.task
    settings = settings_of(setup.config, row.method.chain if row.encodes else ())
    if task.name not in TASKS:  # the papers' tasks have one way of asking
        settings |= {
            "template": task.template.pattern,
            "separator": task.template.separator,
            "stop": [*task.stop],
        }
    metric = row_stages.metric(setup, row)
    training = method_stages.learning_stage(setup, row.method)
    run.get(metric)
    is_unused = row.trains and not row.method.is_used(run.summary(training))
    answers = metric.predictions
    trade_off = None
    if isinstance(answers, Predictions):
        trade_off = run.summary(answers.choice).get("trade_off")
    record = RecordOfRun(
        task.name,
        row.name,
        metric.metric,
        setup.lm.key,
        settings,
        answers,
        metric,
        Texts(setup.queries, setup.bank),
        label=row.title,
        seeded=row.seeded,
        gains="log determinant" if row.needs.trade_off == "tunable" else "",
        kept=row.method.remark_if_unused if is_unused else "",
        trade_off=trade_off,
        device=device(),
    )
    return run.get(record)


def check(run: Run, setup: Setup, chosen: Iterable[Row]) -> list[Measurement]:
    """Return the stages of some rows, so that settings that contradict each other are found before any work.
    Loads the encoder if a row compares vectors, and the LM if a row has not been evaluated yet.

    Raises:
        UserError: settings that contradict each other, or a model that cannot be loaded.
    """
    METRICS[setup.task.metric].check(setup.task.validation)
    targets = [row_stages.metric(setup, row) for row in chosen]
    for target in targets:
        if not run.summary(target):
            for lm in target.predictions.lms:
                lm.get()
    return targets
