"""A classifier that the bank's labels train, beside the prompts on the final rows. It asks no LM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ceil_jax.methods.registry import CLASSIFIER_ROW
from ceil_jax.metrics.bootstrap import bootstrap_interval, by_group, metric_interval, paired
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.views import Examples
from ceil_jax.pipeline.ways import Reply
from ceil_jax.tasks.example import Example
from ceil_jax.tuning.field import Answers, Field
from ceil_jax.tuning.finals import ClassifierResult
from ceil_jax.tuning.loss import loss_of


def classifier_replies(field: Field, queries: Sequence[Example]) -> list[Reply]:
    """Return the classifier's answers to some queries, after it has learnt the bank's labels."""
    stage = row_stages.predictions(field.base, CLASSIFIER_ROW, Examples(queries))
    prediction_of = {row["id"]: row["prediction"] for row in field.run.get(stage)}
    return [Reply(prediction_of[query.id]) for query in queries]


def classifier_result(
    classifier: Answers, prompt: Answers, groups: np.ndarray | None
) -> ClassifierResult:
    """Return the classifier's score beside that of a prompt.

    Args:
        classifier: its answers to N rows, with their scores.
        prompt: the LM's answers to the same rows, with the recommended prompt.
        groups: int [N], equal for rows that count as one because they say the same; None if all
            rows differ.
    """
    difference = paired(classifier.sample, prompt.sample)
    return ClassifierResult(
        metric_interval(classifier.sample, groups),
        bootstrap_interval(*by_group(difference, groups)),
        loss_of(prompt.scores - classifier.scores, groups),
    )
