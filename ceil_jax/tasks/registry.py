"""The registry of tasks."""

from __future__ import annotations

from ceil_jax.registry import Registry
from ceil_jax.tasks.families import cogs, pairs, parsing, questions, repairs, sentiment, sql
from ceil_jax.tasks.spec import TaskSpec

TASKS: Registry[TaskSpec] = Registry("task")
"""Name → entry, in the order of `ceil-jax tasks`."""


def register_task(spec: TaskSpec, *, replace: bool = False) -> None:
    """Register a task for `--task` and `load_task`.

    Raises:
        UserError: the name is taken, and `replace` is not set.
    """
    TASKS.register(spec.name, spec, replace=replace)


for _family in (sentiment, pairs, questions, parsing, sql, cogs, repairs):
    for _spec in _family.ENTRIES:
        register_task(_spec)
