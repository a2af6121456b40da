"""A label head that reads the LM's hidden states, in place of an encoder's vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ceil_jax.methods.base import LearnsFromOutputs
from ceil_jax.methods.free import no_labels
from ceil_jax.tasks.example import Example, Task

if TYPE_CHECKING:
    from ceil_jax.training.free.choice import Fit


@dataclass(frozen=True)
class HiddenStateLabels(LearnsFromOutputs):
    """As `free.Labels`, but P(label | query) is learnt from the LM's hidden states after it has read
    the query as the task's template shows it, without its answer (after FADS-ICL, Li et al.,
    ACL 2024).

    The LM reads the bank once, and every query once. Where an input is of two texts, it reads them
    together.

    Examples:
        >>> from ceil_jax import load_task
        >>> HiddenStateLabels().refusal(load_task("assistant", limit=2, bank_limit=40))
        'the outputs of assistant are no labels that many examples share'
    """

    name: ClassVar[str] = "hidden"
    title: ClassVar[str] = "label head on hidden states"

    @property
    def needs_states(self) -> bool:
        """It reads the LM's hidden states."""
        return True

    @property
    def gives_encoders(self) -> bool:
        """Its vectors need the LM, and no training starts from them."""
        return False

    def refusal(self, task: Task) -> str:
        """Return the reason if the task's outputs are not labels; else ""."""
        return no_labels(task)

    def fits(self, bank: Sequence[Example]) -> Mapping[str, Fit]:
        """Return the label head on hidden states."""
        from ceil_jax.training.free.hidden import fit_hidden_head

        return {"head": fit_hidden_head}
