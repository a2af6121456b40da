"""A task's rows for three uses: the bank, the rows that candidates race on, and the final rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.racing.split import Sizes, sizes
from ceil_jax.store.folder import finish, finished
from ceil_jax.store.hashing import digest
from ceil_jax.store.locking import held
from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.words import first_of_each, question_key
from ceil_jax.tuning.options import Rows


class Split:
    """A task with its bank, its tuning rows and its final rows; no two rows of them show an LM the same words.

    Args:
        task: its bank, of which tuning rows are taken, and its held-out queries, which are the final rows.
        rows: how many.
        seed: draws them.

    Raises:
        UserError: too few rows, or a single label.
    """

    def __init__(self, task: Task, rows: Rows, seed: int) -> None:
        def shown(example: Example) -> str:
            return question_key(task.template.query(example))

        known = {shown(example) for example in task.train}
        queries = [query for query in first_of_each(task.validation, shown) if shown(query) not in known]
        self.left_out = len(task.validation) - len(queries)
        """Held-out queries that repeat others, or stand in the bank: their answers say little of new rows."""
        if task.validation[0].choices and len({example.output for example in task.train}) < 2:
            raise UserError(
                f"{task.name}: every row of the bank has the output {task.train[0].output!r}; give rows of at least "
                "two labels, or --metric exact_match to generate answers"
            )
        self.sizes: Sizes = sizes(
            len(task.train), rows.tuning_rows, rows.final_rows, apart=max(1, len(queries)), what=task.name
        )
        self.tuning = list(draw(task.train, self.sizes.tuning, seed + 1))
        held = {example.id for example in self.tuning}
        order = np.random.default_rng([seed, 7]).permutation(len(self.tuning))
        # in random order: a round's rows are then rows like any other
        self.tuning = [self.tuning[i] for i in order]
        self.final = list(draw(queries, self.sizes.final, seed + 2))
        bank = [example for example in task.train if example.id not in held]
        self.task = replace(task, train=bank, validation=self.final)


def looks(root: Path, rows: Sequence[Example], lm: str, search: str) -> int:
    """Keep that a search looked at these final rows, and return how many other searches had done so before.

    Args:
        root: the folder of runs.
        rows: the final rows.
        lm: the name of the LM that answered them.
        search: the hash of the search's settings.
    """
    folder = root / f"final-{digest([digest(list(rows)), lm])}"
    with held(folder):
        seen = list((finished(folder) or {}).get("searches", []))
        if search not in seen:
            finish(folder, {"searches": [*seen, search]})
            return len(seen)
        return seen.index(search)
