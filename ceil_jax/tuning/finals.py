"""The end of a search: the final rows are answered once, and what raced is listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import Sample, bootstrap_interval, mean, metric_interval, paired
from ceil_jax.pipeline.free import classifies
from ceil_jax.racing.race import Race
from ceil_jax.racing.split import FEWEST
from ceil_jax.racing.verdict import Finalist, Verdict, judge
from ceil_jax.tasks.example import Example
from ceil_jax.tuning.answers import OutOfTime
from ceil_jax.tuning.candidates import Candidate
from ceil_jax.tuning.field import Entrant, Field
from ceil_jax.tuning.outcome import Alone, Finished, Runner

Label = Callable[[Candidate], str]
"""A candidate's name in tables."""


def finish(
    field: Field, roles: Mapping[str, Entrant], rows: Sequence[Example], label: Label, tolerance: float
) -> tuple[tuple[Finished, ...], Verdict, int, Alone | None]:
    """Let the finalists answer the final rows, and return them, what is certain, how many rows were asked, and the
    classifier beside them where the task has labels.

    Args:
        field: answers.
        roles: why it is a finalist → the candidate, the winner first; one may have several.
        rows: the final rows; the last ones are left out where the budget does not pay for all.
        label: names candidates.
        tolerance: see `judge`.

    Raises:
        UserError: what is left of the budget pays for too few rows.
    """
    named: dict[Candidate, list[str]] = {}
    for role, one in roles.items():
        named.setdefault(one.candidate, []).extend([role] if role else [])
    entered = [field.enter(candidate, rows) for candidate in named]
    each = np.sum([one.tokens for one in entered], axis=0)
    meter = field.meter
    paid = int(min((np.cumsum(each) <= meter.left()).sum(), meter.requests_left // len(entered), len(rows)))
    limits = meter.limits.flags()
    if paid < FEWEST:
        raise UserError(
            f"{limits}: what is left of the budget pays for {paid} final rows, and {FEWEST} are needed; give more"
        )
    try:
        scored = field.score(entered, rows, slice(0, paid), "final rows")
    except OutOfTime:
        raise UserError(
            f"{limits}: the seconds were spent on the final rows; give more (answers are kept)"
        ) from None
    statistic = metric_named(field.task.metric).from_sums
    finalists = [
        Finalist(label(one.candidate), float(one.lengths.mean()), Sample(found.statistics, statistic))
        for one, found in zip(entered, scored, strict=True)
    ]
    verdict = judge(finalists, tolerance=tolerance)
    finals = tuple(
        Finished(one.candidate, final.name, tuple(named[one.candidate]), final.tokens, score)
        for one, final, score in zip(entered, finalists, verdict.scores, strict=True)
    )
    return finals, verdict, paid, _alone(field, rows[:paid], finalists[verdict.recommended].sample)


def _alone(field: Field, rows: Sequence[Example], recommended: Sample) -> Alone | None:
    if classifies(field.task):
        return None
    metric = metric_named(field.task.metric)
    answers = {row["id"]: row["prediction"] for row in field.run.get(field.base.predictions("classifier"))}
    predictions = [answers[row.id] for row in rows]
    scores = np.asarray(metric.per_example(predictions, rows), np.float64)
    sample = Sample(metric.statistics(scores, predictions, rows), metric.from_sums)
    return Alone(metric_interval(sample), bootstrap_interval(*paired(sample, recommended)))


def runners(race: Race, entrants: Sequence[Entrant], label: Label) -> tuple[Runner, ...]:
    """Return what raced: those that stayed to the end first, by rows and score.

    Args:
        race: it is over.
        entrants: its candidates.
        label: names candidates.
    """
    order = {"racing": 0, "aside": 1, "worse": 2}
    found = []
    for one, scores, state in zip(entrants, race.scores, race.states, strict=True):
        if len(scores):
            score = metric_interval(Sample(scores[:, None], mean))
            tokens = float(one.lengths.mean())
            found.append(Runner(one.candidate, label(one.candidate), score, len(scores), tokens, state))
    return tuple(sorted(found, key=lambda one: (order[one.state], -one.rows, -one.score.mean, one.tokens)))
