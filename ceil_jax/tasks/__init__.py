"""What each dataset is: one entry a task, one module a family."""

from __future__ import annotations

from ceil_jax.errors import unknown_name
from ceil_jax.tasks import sentiment
from ceil_jax.tasks.base import Example, Task, Template
from ceil_jax.tasks.spec import Hub, TaskSpec

TASKS: dict[str, TaskSpec] = {spec.name: spec for family in (sentiment,) for spec in family.TASKS}


def task_spec(name: str) -> TaskSpec:
    """The entry of that name.

    Raises:
        UserError: no such task.
    """
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


__all__ = ["TASKS", "Example", "Hub", "Task", "TaskSpec", "Template", "task_spec"]
