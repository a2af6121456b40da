"""The split of a task's rows into the bank, the rows of the race, and the final rows."""

from __future__ import annotations

import logging
import random
from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.tasks.checks import check_labels
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.identity import question_key
from ceil_jax.tasks.words import first_of_each
from ceil_jax.tuning.config import HELD_OUT
from ceil_jax.tuning.verdict import FEWEST_ROWS

log = logging.getLogger(__name__)

MOST_TUNING = 300
MOST_FINAL = 500
"""The default maximum numbers of tuning rows and of final rows."""

_ORDERS = 7
"""The part of the random key, next to the seed, for the orders in which rows are answered."""


def split_rows(
    task: Task, tuning: int | None, final: int | None, seed: int
) -> tuple[Task, list[Example], int]:
    """Return the task with the remaining bank, and with the final rows as its queries; the rows to
    race on; and how many held-out queries were left out because they repeat others or are in the
    bank. The rows to race on and the final rows are in random order.

    No two rows show an LM the same words: of rows of the bank that do, the first is kept, because
    another's output would answer a row that is raced on.

    Args:
        task: the bank and the held-out queries.
        tuning: how many rows to race on, taken from the bank; by default a fifth of it, at least 20
            and at most 300.
        final: the most final rows, taken from the held-out queries; by default 500.
        seed: draws the rows.

    Raises:
        UserError: too few rows, or a single label.
    """

    def words(example: Example) -> str:
        return question_key(task.template.query(example))

    different_rows = first_of_each(task.train, words)
    if twins := len(task.train) - len(different_rows):
        log.warning(
            "%s: %d %s with the same text as another left out of the bank",
            task.name,
            twins,
            "row" if twins == 1 else "rows",
        )
    task = replace(task, train=different_rows)
    words_of_bank = {words(example) for example in different_rows}
    queries = [
        query
        for query in first_of_each(task.validation, words)
        if words(query) not in words_of_bank
    ]
    check_labels(task)
    rows = len(task.train)
    tuning = tuning or min(max(round(HELD_OUT * rows), FEWEST_ROWS), MOST_TUNING)
    final = min(len(queries), final or MOST_FINAL)
    if min(rows - tuning, tuning, final) < FEWEST_ROWS:
        raise UserError(
            f"{task.name}: {rows + len(queries):,} rows make {max(rows - tuning, 0):,} for the "
            f"bank, {tuning:,} to tune on and {final:,} final rows; at least {FEWEST_ROWS} of "
            f"each are needed: give {5 * FEWEST_ROWS} different rows or more (some hundreds for "
            "narrow intervals), or another number of --tuning-rows, --final-rows or --limit"
        )
    raced, bank = _apart(task, tuning, seed + 1)
    if len(bank) < FEWEST_ROWS:
        raise UserError(
            f"{task.name}: the rows of one {task.group!r} stay together, which leaves {len(bank):,} "
            f"for the bank; at least {FEWEST_ROWS} are needed: give rows of more groups, or a "
            "smaller --tuning-rows"
        )
    tuning_rows = list(draw(raced, tuning, seed + 1))
    final_rows = list(draw(queries, final, seed + 2))
    # the rows of a round, and those that are answered when the time is over, are then rows like any
    # other, also of a file that is in the order of its labels
    rng = np.random.default_rng([seed, _ORDERS])
    tuning_order = rng.permutation(tuning)
    final_order = rng.permutation(final)
    rest = replace(task, train=bank, validation=[final_rows[i] for i in final_order])
    return rest, [tuning_rows[i] for i in tuning_order], len(task.validation) - len(queries)


def _apart(task: Task, tuning: int, seed: int) -> tuple[list[Example], list[Example]]:
    """Return at least `tuning` rows to race on, and the other rows as the bank.

    No group of the task has rows on both sides; a row without a group is a group of its own.
    """
    rows_of: dict[Hashable, list[Example]] = {}
    for row in task.train:
        rows_of.setdefault(task.group_of(row) or (row.id,), []).append(row)
    order = list(rows_of.values())
    random.Random(seed).shuffle(order)
    before = np.cumsum([0, *map(len, order)])[:-1]
    raced = {
        row.id for rows, count in zip(order, before, strict=True) if count < tuning for row in rows
    }
    return (
        [row for row in task.train if row.id in raced],
        [row for row in task.train if row.id not in raced],
    )
