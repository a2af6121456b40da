"""The answers that need no LM, which are compared with the prompts on the final rows: a
classifier's where outputs are labels, and the nearest example's own output where answers are
written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ceil_jax.methods.free import no_labels
from ceil_jax.methods.registry import CLASSIFIER_ROW, COPIED_ROW
from ceil_jax.methods.row import Row
from ceil_jax.metrics.bootstrap import bootstrap_interval, by_group, metric_interval, paired
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.ways import Reply
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tuning.field import Field, ScoredReplies
from ceil_jax.tuning.finals import WithoutLM
from ceil_jax.tuning.loss import loss_of


def row_without_lm(task: Task) -> Row | None:
    """Return the row that answers a task without an LM; None if every query has options of its
    own, which no other row of the bank answers."""
    if not no_labels(task):
        return CLASSIFIER_ROW
    return None if COPIED_ROW.method.refusal(task) else COPIED_ROW


def replies_without_lm(field: Field, row: Row, queries: Sequence[Example]) -> list[Reply]:
    """Return the row's answers to some queries."""
    stage = row_stages.predictions(field.base, row, Examples(queries))
    prediction_of = {answer["id"]: answer["prediction"] for answer in field.run.get(stage)}
    return [Reply(prediction_of[query.id]) for query in queries]


def result_without_lm(
    row: Row, answers: ScoredReplies, prompt: ScoredReplies, groups: np.ndarray | None
) -> WithoutLM:
    """Return the row's score compared with that of a prompt.

    Args:
        row: the row that answered without an LM.
        answers: its answers to N rows, with their scores.
        prompt: the LM's answers to the same rows, with the recommended prompt.
        groups: int [N], equal for rows that count as one because they say the same; None if all
            rows differ.
    """
    difference = paired(answers.sample, prompt.sample)
    return WithoutLM(
        row,
        metric_interval(answers.sample, groups),
        bootstrap_interval(*by_group(difference, groups)),
        loss_of(prompt.scores - answers.scores, groups),
    )
