"""The final rows: the finalists answer as many as the budget pays for, and notes say what that
proves."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ceil_jax.pipeline.ways import TROUBLE_COLUMNS, Reply, trouble_in_words
from ceil_jax.tasks.example import Example
from ceil_jax.tuning.budget import Budget
from ceil_jax.tuning.field import Entrant, Field, ScoredReplies
from ceil_jax.tuning.fitting import LEAST_FINAL
from ceil_jax.tuning.outcome import ShownRow

log = logging.getLogger(__name__)

ENOUGH_ROWS = 50
"""With fewer final rows, a note says that they prove little."""


def answer_final_rows(
    field: Field, entrants: Sequence[Entrant], queries: Sequence[Example]
) -> list[ScoredReplies]:
    """Let the finalists answer as many final rows as the budget pays for, at least LEAST_FINAL, and
    return their answers.

    Args:
        field: asks the LM.
        entrants: the finalists with their prompts for all of `queries`.
        queries: the final rows; all finalists answer the first of them.
    """
    budget = field.budget
    tokens = _tokens_of_rows(entrants)
    answered = 0
    while True:
        # most answers are shorter than they may be, and leave tokens for further rows
        more = int((np.cumsum(tokens[answered:]) <= budget.tokens_left()).sum())
        paid = min(len(queries), max(LEAST_FINAL, answered + more))
        log.info("final rows: %d prompts on %d rows; %s", len(entrants), paid, budget.remaining())
        span = slice(0, paid)
        answers = field.answer(entrants, queries, span, "the final rows", least=LEAST_FINAL)
        if len(answers[0].scores) < paid or paid in (answered, len(queries)):
            return answers
        answered = paid


def notes_on_number(
    count: int, planned: int, entrants: Sequence[Entrant], budget: Budget
) -> list[str]:
    """Return notes on the number of final rows: whether the budget ended before all were answered,
    and whether there are too few to prove much.

    Args:
        count: how many were answered.
        planned: how many were to be answered.
        entrants: the finalists.
        budget: what was spent.
    """
    notes = []
    if count < planned:
        tokens = (planned - count) * float(_tokens_of_rows(entrants).mean())
        seconds = max(tokens * budget.pace, 60 * ((budget.minutes or 0.0) - budget.elapsed))
        notes.append(
            f"The budget ended after {count} of {planned} final rows; "
            f"{budget.needed(tokens, seconds)} pays for all of them (answers are kept)."
        )
    if count < ENOUGH_ROWS:
        # two proportions of a half: 1.96 √(2 · ¼ / n)
        noise = 139 / math.sqrt(count)
        notes.append(
            f"{count} final rows prove little: differences below about {noise:.0f} points "
            "cannot be told from noise."
        )
    return notes


def notes_on_troubles(replies: Sequence[Reply], max_new_tokens: int) -> list[str]:
    """Return a note for each kind of trouble that answers to the final rows have.

    Args:
        replies: the answers of all finalists.
        max_new_tokens: the most tokens of an answer.
    """
    notes = []
    for trouble, count in troubles_of(replies).items():
        words = trouble_in_words(trouble, max_new_tokens)
        column = TROUBLE_COLUMNS[trouble].capitalize()
        notes.append(
            f"{column}: answers to the final rows that are {words}: {count:,} of {len(replies):,}."
        )
    return notes


def troubles_of(replies: Sequence[Reply]) -> dict[str, int]:
    """Return how many answers have each kind of trouble (`pipeline.ways`)."""
    return dict(Counter(reply.trouble for reply in replies if reply.trouble))


def shown_rows(
    queries: Sequence[Example], entrant: Entrant, answers: ScoredReplies
) -> list[ShownRow]:
    """Return final rows with a finalist's prompts and the LM's answers."""
    return [
        ShownRow(query.input, prompt, reply.prediction, query.output, bool(score == 1))
        for query, prompt, reply, score in zip(
            queries, entrant.prompts, answers.replies, answers.scores, strict=False
        )
    ]


def _tokens_of_rows(entrants: Sequence[Entrant]) -> np.ndarray:
    """The LM tokens that each row may take with all finalists, float [N]."""
    return np.sum([entrant.tokens for entrant in entrants], axis=0)
