"""What each dataset is: one entry a task, one module a family."""

from __future__ import annotations

from ceil_jax.errors import unknown_name
from ceil_jax.tasks import choice, cogs, openqa, pairs, parsing, scan, sentiment, smcalflow_cs, sql
from ceil_jax.tasks.example import Example, Task, Template
from ceil_jax.tasks.spec import FieldError, Hub, Row, TaskSpec

_FAMILIES = (sentiment, pairs, choice, openqa, parsing, smcalflow_cs, sql, cogs, scan)

TASKS: dict[str, TaskSpec] = {spec.name: spec for family in _FAMILIES for spec in family.TASKS}


def task_spec(name: str) -> TaskSpec:
    """The entry of that name.

    Raises:
        UserError: no such task.
    """
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


__all__ = ["TASKS", "Example", "FieldError", "Hub", "Row", "Task", "TaskSpec", "Template", "task_spec"]
