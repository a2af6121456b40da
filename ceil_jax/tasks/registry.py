"""All tasks that have a name."""

from __future__ import annotations

from ceil_jax.errors import unknown_name
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

TASKS: dict[str, TaskSpec] = {spec.name: spec for family in _FAMILIES for spec in family.TASKS}
"""Name -> entry, in the order in which `ceil-jax tasks` lists them."""


def task_spec(name: str) -> TaskSpec:
    """Return the entry of a task.

    Args:
        name: a key of `TASKS`.

    Raises:
        UserError: there is no task of that name.
    """
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]
