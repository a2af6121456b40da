"""Resampling by gold programs: queries with the same program are resampled together, because they
are not independent."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.report.runs import Runs
from ceil_jax.tasks.load import load_task
from ceil_jax.tasks.structures import programs
from ceil_jax.tasks.words import overlap
from harness.results_file import Published


def by_program(record: Published, data_dir: Path | None) -> Published:
    """Return a recorded run with the gold programs of its queries, taken from the task's data.

    Raises:
        UserError: the data have other queries than the record.
    """
    if record.overlap is None:
        return record
    in_bank, questions = _of_task(record.task, data_dir, record.queries, record.bank)
    if not np.array_equal(in_bank, record.overlap.output_in_bank):
        raise UserError(f"{record.task}: the queries of the data are not those of the records")
    if questions is None:
        return record
    record = replace(record, overlap=record.overlap._replace(question=questions))
    _, low, high = Runs((record,)).interval
    return replace(record, low=low, high=high)


@cache
def _of_task(
    name: str, data_dir: Path | None, queries: int, bank: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return which outputs of the queries are in the bank, and the queries' programs."""
    task = load_task(name, data_dir, queries, bank_limit=bank)
    return overlap(task.validation, task.train).output_in_bank, programs(
        task.validation, task.train
    )
