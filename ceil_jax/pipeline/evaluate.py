"""The evaluation of a row, which records its answers, their metric and their cost."""

from __future__ import annotations

from collections.abc import Iterable

from ceil_jax.distributed.machine import device
from ceil_jax.methods.row import Row
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.answering import Measurement, Predictions
from ceil_jax.pipeline.records import Record, RecordOfRun, Texts, settings_of
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.stage import Run
from ceil_jax.tasks import TASKS


def evaluate(run: Run, setup: Setup, row: Row) -> Record:
    """Return the record of a row on the task's queries; what is not on disk is computed."""
    metric = row_stages.metric(setup, row)
    run.get(metric)
    task = setup.task
    settings = settings_of(setup.config, row.method.chain if row.encodes else ())
    if task.name not in TASKS:  # the papers' tasks have one way of asking
        settings |= {
            "template": task.template.pattern,
            "separator": task.template.separator,
            "stop": [*task.stop],
        }
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
        kept=remark(run, setup, row),
        trade_off=trade_off,
        device=device(),
    )
    return run.get(record)


def remark(run: Run, setup: Setup, row: Row) -> str:
    """Return a remark on a row that does not use what training gave its encoders; else ""."""
    if not row.trains or row_stages.is_used(run, setup, row.method):
        return ""
    return row.method.remark_if_unused


def check(run: Run, setup: Setup, chosen: Iterable[Row]) -> list[Measurement]:
    """Return the stages of some rows, so that a setting that cannot be is met before any work.
    Loads the encoder if a row compares vectors, and the LM if a row has not been evaluated yet.

    Raises:
        UserError: settings or models that cannot be.
    """
    METRICS[setup.task.metric].check(setup.task.validation)
    targets = [row_stages.metric(setup, row) for row in chosen]
    for target in targets:
        if not run.summary(target):
            for lm in target.predictions.lms:
                lm.get()
    return targets
