"""The answers that need no LM, which are compared with the prompts on the final rows.

A classifier's where outputs are labels, and the nearest example's own output where answers are
written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ceil_jax.methods.free import no_labels
from ceil_jax.methods.registry import CLASSIFIER_ROW, COPIED_ROW
from ceil_jax.methods.row import Row
from ceil_jax.metrics.bootstrap import bootstrap_interval, by_group, metric_interval, paired
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.export import classifier_of
from ceil_jax.pipeline.ways import Reply
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tuning.field import Field, ScoredReplies
from ceil_jax.tuning.finals import ThenLM, WithoutLM
from ceil_jax.tuning.loss import loss_of


def row_without_lm(task: Task) -> Row | None:
    """Return the row that answers a task without an LM.

    None if every query has options of its own, which no other row of the bank answers.
    """
    if not no_labels(task):
        return CLASSIFIER_ROW
    return None if COPIED_ROW.method.refusal(task) else COPIED_ROW


def replies_without_lm(field: Field, row: Row, queries: Sequence[Example]) -> list[Reply]:
    """Return the row's answers to some queries."""
    stage = row_stages.predictions(field.base, row, Examples(queries))
    prediction_of = {answer["id"]: answer["prediction"] for answer in field.run.get(stage)}
    return [Reply(prediction_of[query.id]) for query in queries]


def note_on_majority(
    field: Field, final: Sequence[Example], prompt: ScoredReplies, groups: np.ndarray | None
) -> str:
    """Return a line if always answering with the most frequent label does as well; else "".

    The label is the bank's, and it does as well if it is not significantly worse than the
    recommended prompt.

    Args:
        field: has the bank.
        final: N final rows.
        prompt: the LM's answers to them with the recommended prompt.
        groups: as in `result_without_lm`.
    """
    [(label, _)] = Counter(row.output for row in field.task.train).most_common(1)
    always = field.score([Reply(label)] * len(final), final)
    minus = bootstrap_interval(*by_group(paired(always.sample, prompt.sample), groups))
    if minus.high < 0:
        return ""
    percent = minus.percent()
    return (
        f"The most frequent label alone, {label!r}, is not significantly worse than the recommended "
        f"prompt: {percent.mean:+.1f} points ({percent.low:+.1f} to {percent.high:+.1f})."
    )


def then_lm(
    field: Field,
    row: Row,
    raced: tuple[Sequence[Example], np.ndarray],
    final: Sequence[Example],
    prompt: ScoredReplies,
    groups: np.ndarray | None,
) -> ThenLM | None:
    """Return the result of the classifier where it is sure, and of a prompt elsewhere.

    At the lowest threshold at which both together lose nothing against the prompt on the tuning
    rows. No LM token is spent. None if there is no such threshold, or if only one of the two would
    answer.

    Args:
        field: has the bank on which the classifier is trained.
        row: the classifier's.
        raced: M tuning rows, and the prompt's scores on them, float [M].
        final: N final rows.
        prompt: the LM's answers to them.
        groups: as in `result_without_lm`.
    """
    tuning, scores = raced
    if row.answers != "classifier" or field.base.config.text != "input" or not len(scores):
        return None
    classifier = classifier_of(field.run, field.base, row)
    known, last = classifier.predict(tuning), classifier.predict(final)
    right = field.score([Reply(label) for label in known.labels], tuning).scores
    threshold = lowest_threshold(known.probabilities.max(axis=1), right - scores)
    sure = last.probabilities.max(axis=1) >= (np.inf if threshold is None else threshold)
    if threshold is None or sure.all() or not sure.any():
        return None
    replies = [
        Reply(label) if is_sure else reply
        for label, is_sure, reply in zip(last.labels, sure, prompt.replies, strict=True)
    ]
    both = field.score(replies, final)
    return ThenLM(
        threshold,
        float(1 - sure.mean()),
        metric_interval(both.sample, groups),
        bootstrap_interval(*by_group(paired(both.sample, prompt.sample), groups)),
        loss_of(prompt.scores - both.scores, groups),
    )


def lowest_threshold(probabilities: np.ndarray, gains: np.ndarray) -> float | None:
    """Return the lowest threshold at which nothing is lost on the whole, to four decimals.

    None if there is none.

    Args:
        probabilities: float [M], of the classifier's labels.
        gains: float [M], its score minus that of the prompt.

    >>> lowest_threshold(np.array([0.9, 0.8, 0.7, 0.6]), np.array([1, -1, -1, 0]))
    0.8
    """
    thresholds = np.unique(np.floor(np.asarray(probabilities, np.float64) * 1e4) / 1e4)
    usable = [value for value in thresholds if gains[probabilities >= value].sum() >= 0]
    return float(min(usable)) if usable else None


def result_without_lm(
    row: Row,
    answers: ScoredReplies,
    prompt: ScoredReplies,
    groups: np.ndarray | None,
    both: ThenLM | None = None,
) -> WithoutLM:
    """Return the row's score compared with that of a prompt.

    Args:
        row: the row that answered without an LM.
        answers: its answers to N rows, with their scores.
        prompt: the LM's answers to the same rows, with the recommended prompt.
        groups: int [N], equal for rows that count as one because they say the same; None if all
            rows differ.
        both: the result of the row and the prompt in a row.
    """
    difference = paired(answers.sample, prompt.sample)
    return WithoutLM(
        row,
        metric_interval(answers.sample, groups),
        bootstrap_interval(*by_group(difference, groups)),
        loss_of(prompt.scores - answers.scores, groups),
        both,
    )
