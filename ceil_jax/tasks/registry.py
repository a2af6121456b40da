"""All tasks that have a name."""

from __future__ import annotations

from ceil_jax.registry import Registry
from ceil_jax.tasks.families import (
    choice,
    cogs,
    openqa,
    pairs,
    parsing,
    scan,
    sentiment,
    smcalflow_cs,
    sql,
)
from ceil_jax.tasks.spec import TaskSpec

_FAMILIES = (sentiment, pairs, choice, openqa, parsing, smcalflow_cs, sql, cogs, scan)

TASKS: Registry[TaskSpec] = Registry("task")
"""Name -> entry, in the order in which `ceil-jax tasks` lists them."""


def register_task(spec: TaskSpec, *, replace: bool = False) -> None:
    """Add a task, which `--task` and `load_task` then name.

    Args:
        spec: its entry.
        replace: whether it takes the place of one that has its name; by default that is refused.

    Raises:
        UserError: the name is taken.
    """
    TASKS.register(spec.name, spec, replace=replace)


def task_spec(name: str) -> TaskSpec:
    """Return the entry of a task.

    Args:
        name: a key of `TASKS`.

    Raises:
        UserError: there is no task of that name.
    """
    return TASKS[name]


for _family in _FAMILIES:
    for _spec in _family.TASKS:
        register_task(_spec)
