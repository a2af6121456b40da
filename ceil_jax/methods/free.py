"""Methods that learn from the outputs of the bank, without LM calls.

They work on any encoder's vectors (`training.free`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ceil_jax.methods.base import LearnsFromOutputs
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.labels import labels_of
from ceil_jax.tasks.structures import structure_parser_of

if TYPE_CHECKING:
    from ceil_jax.training.free.choice import Fit


def no_labels(task: Task) -> str:
    """Return the reason why a label classifier cannot be trained on a task; "" if it can."""
    labels = labels_of(task.train)
    if len(labels) == 1:
        return f"all outputs of {task.name} are {labels[0]!r}; expected two labels or more"
    return "" if labels else f"the outputs of {task.name} are not labels that many examples share"


@dataclass(frozen=True)
class Labels(LearnsFromOutputs):
    """A method whose relevance is P(the example's label | query), plus half the cosine.

    The probability is that of a logistic regression on the bank.

    Examples:
        >>> from ceil_jax import load_task
        >>> Labels().refusal(load_task("repairs", limit=2, bank_limit=40))
        'the outputs of repairs are not labels that many examples share'
    """

    name: ClassVar[str] = "head"
    title: ClassVar[str] = "label head"
    version: ClassVar[int] = 4

    def refusal(self, task: Task) -> str:
        """Return the reason why the method cannot be used if the task's outputs are not labels; else ""."""
        return no_labels(task)

    def fits(self, bank: Sequence[Example]) -> Mapping[str, Fit]:
        """Return the label head."""
        from ceil_jax.training.free.head import fit_label_head

        return {"head": fit_label_head}


@dataclass(frozen=True)
class Free(LearnsFromOutputs):
    """A method that learns relevance from the bank's outputs, without an LM.

    If outputs are labels, it is `Labels`. If they are programs, relevance is the expected
    overlap of the query's predicted local structures with the example's (after Levy et al., ACL
    2023). The untrained encoder is used if the outputs are neither, or if held-out rows of the bank
    do not show a significant gain.

    Examples:
        >>> bank = [Example(str(i), f"film {i}", ("bad", "good")[i % 2]) for i in range(20)]
        >>> list(Free().fits(bank))
        ['cosine', 'head']
    """

    name: ClassVar[str] = "free"
    title: ClassVar[str] = "free"
    version: ClassVar[int] = 4

    def fits(self, bank: Sequence[Example]) -> Mapping[str, Fit]:
        """Return the heads that suit the bank's outputs, and the plain cosine as an alternative.

        The cosine is used if no head fits the outputs.
        """
        from ceil_jax.training.free.choice import fit_cosine

        fits: dict[str, Fit] = {"cosine": fit_cosine}
        if labels_of(bank):
            fits |= Labels().fits(bank)
        if structure_parser_of(bank) is not None:
            from ceil_jax.training.free.structures import fit_structure_head

            fits["structures"] = fit_structure_head
        return fits
