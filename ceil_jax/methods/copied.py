"""A method without an LM, for tasks without options: the answer is the nearest example's own output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ceil_jax.methods.untrained import Untrained
from ceil_jax.tasks.example import Task


@dataclass(frozen=True)
class Copied(Untrained):
    """The untrained encoder finds the nearest example, whose output is the answer.

    The score of prompts above this baseline is what the LM adds.

    Examples:
        >>> from ceil_jax import load_task
        >>> Copied().refusal(load_task("movie_reviews", limit=2, bank_limit=40))
        'movie_reviews has options to choose from; a classifier answers these without an LM'
    """

    name: ClassVar[str] = "copied"
    title: ClassVar[str] = "copied outputs"

    @property
    def gives_encoders(self) -> bool:
        """Always False: the method has no encoder of its own."""
        return False

    def refusal(self, task: Task) -> str:
        """Return the reason why the method cannot be used if the task's answers are chosen among options; else ""."""
        if not task.validation[0].choices:
            return ""
        return f"{task.name} has options to choose from; a classifier answers these without an LM"
