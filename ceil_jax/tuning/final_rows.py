"""The finalists' answers to the final rows, as many as the budget pays for, and notes on these answers."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ceil_jax.pipeline.ways import (
    NO_OPTION,
    TROUBLE_COLUMNS,
    Reply,
    trouble_in_words,
    without_label,
)
from ceil_jax.tasks.example import Example
from ceil_jax.tuning.budget import Budget
from ceil_jax.tuning.field import Entrant, Field, ScoredReplies
from ceil_jax.tuning.outcome import ShownRow
from ceil_jax.tuning.standing import Standing
from ceil_jax.tuning.verdict import Verdict

log = logging.getLogger(__name__)

LEAST_FINAL = 8
"""Number of final rows that are answered even if the budget is spent, so that every search ends with a table."""

ENOUGH_ROWS = 50
"""The number of final rows below which a note warns that they prove little."""


class Finalist(NamedTuple):
    """A candidate that answers the final rows."""

    entrant: Entrant
    role: str
    """The reasons why it is a finalist."""
    raced: np.ndarray
    """float [m]: its scores in the race; m is 0 if it did not take part."""


def answered(
    field: Field, budget: Budget, finalists: Sequence[Finalist], queries: Sequence[Example]
) -> list[ScoredReplies]:
    """Return the finalists' answers to the first final rows, as many as the budget pays for.

    They are at least LEAST_FINAL. What the budget did not pay for is noted in it.

    Args:
        field: lets the LM answer.
        budget: what is left for these rows.
        finalists: with their prompts for all of `queries`.
        queries: the final rows.
    """
    entrants = [finalist.entrant for finalist in finalists]
    tokens = np.sum([entrant.tokens for entrant in entrants], axis=0)
    count = 0
    while True:
        # most answers are shorter than they may be, and leave tokens for further rows
        more = int((np.cumsum(tokens[count:]) <= budget.tokens_left()).sum())
        paid = min(len(queries), max(LEAST_FINAL, count + more))
        log.info("final rows: %d prompts on %d rows; %s", len(entrants), paid, budget.remaining())
        answers = field.answer(
            entrants, queries, slice(0, paid), "the final rows", least=LEAST_FINAL
        )
        before = count
        count = len(answers[0].scores)
        if count < paid or paid in (before, len(queries)):
            budget.miss(float(tokens[count:].sum()))
            return answers


def notes_on(answers: Sequence[ScoredReplies], of: int, max_new_tokens: int) -> list[str]:
    """Return notes on the finalists' answers.

    Whether the budget ended before the last row, whether there are too few rows to prove much, and
    one for each kind of trouble (`pipeline.ways`) that answers have.

    Args:
        answers: of each finalist, to the same rows.
        of: how many final rows there are.
        max_new_tokens: the most tokens of an answer.
    """
    count = len(answers[0].scores)
    notes = []
    if count < of:
        notes.append(f"The budget ended after {count} of {of} final rows (answers are kept).")
    if count < ENOUGH_ROWS:
        # two proportions of a half: 1.96 √(2 · ¼ / n)
        noise = 139 / math.sqrt(count)
        notes.append(
            f"{count} final rows prove little: differences below about {noise:.0f} points "
            "cannot be told from noise."
        )
    replies = [reply for answer in answers for reply in answer.replies]
    for trouble, number in _troubles(replies).items():
        words = trouble_in_words(trouble, max_new_tokens)
        column = TROUBLE_COLUMNS[trouble].capitalize()
        shown = without_label(replies) if trouble == NO_OPTION else ""
        notes.append(
            f"{column}: answers to the final rows that are {words}: {number:,} of "
            f"{len(replies):,}.{shown}"
        )
    return notes


def standings(
    finalists: Sequence[Finalist], answers: Sequence[ScoredReplies], verdict: Verdict
) -> tuple[Standing, ...]:
    """Return the results of the finalists, in their order."""
    return tuple(
        Standing(
            entrant.candidate,
            score,
            len(answer.scores),
            entrant.usage,
            entrant.preparing,
            role,
            _troubles(answer.replies),
        )
        for (entrant, role, _), score, answer in zip(
            finalists, verdict.scores, answers, strict=True
        )
    )


def shown_rows(
    queries: Sequence[Example], finalist: Finalist, answers: ScoredReplies
) -> list[ShownRow]:
    """Return the rows that a finalist has answered, with its prompts and the LM's answers."""
    return [
        ShownRow(query.input, prompt, reply.prediction, query.output, bool(score == 1))
        for query, prompt, reply, score in zip(
            queries, finalist.entrant.prompts, answers.replies, answers.scores, strict=False
        )
    ]


def _troubles(replies: Sequence[Reply]) -> dict[str, int]:
    """Return how many answers have each kind of trouble."""
    return dict(Counter(reply.trouble for reply in replies if reply.trouble))
