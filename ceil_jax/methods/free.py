"""Methods that learn from the outputs of the bank, without an LM, on any encoder's vectors
(`training.free`)."""

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
    """Return why a classifier of labels does not apply to a task; "" if it does."""
    labels = labels_of(task.train)
    if len(labels) == 1:
        return f"all outputs of {task.name} are {labels[0]!r}; expected two labels or more"
    return "" if labels else f"the outputs of {task.name} are no labels that many examples share"


@dataclass(frozen=True)
class Labels(LearnsFromOutputs):
    """P(the example's label | query) by logistic regression on the bank, + ½ cosine.

    Examples:
        >>> from ceil_jax import load_task
        >>> Labels().refusal(load_task("assistant", limit=2, bank_limit=40))
        'the outputs of assistant are no labels that many examples share'
    """

    name: ClassVar[str] = "head"
    title: ClassVar[str] = "label head"
    version: ClassVar[int] = 4

    def refusal(self, task: Task) -> str:
        """It needs outputs that are labels."""
        return no_labels(task)

    def fits(self, bank: Sequence[Example]) -> Mapping[str, Fit]:
        """Return the label head."""
        from ceil_jax.training.free.head import fit_label_head

        return {"head": fit_label_head}


@dataclass(frozen=True)
class Structures(LearnsFromOutputs):
    """Expected overlap of the query's predicted local structures with an example's (after Levy et
    al., ACL 2023).

    Examples:
        >>> from ceil_jax import load_task
        >>> Structures().refusal(load_task("movie_reviews", limit=4, bank_limit=40))
        'the outputs of movie_reviews are no programs that can be parsed'
    """

    name: ClassVar[str] = "structures"
    title: ClassVar[str] = "structures"
    version: ClassVar[int] = 4

    def refusal(self, task: Task) -> str:
        """It needs outputs that are programs."""
        if structure_parser_of(task.train) is None:
            return f"the outputs of {task.name} are no programs that can be parsed"
        return ""

    def fits(self, bank: Sequence[Example]) -> Mapping[str, Fit]:
        """Return the structure head."""
        from ceil_jax.training.free.structures import fit_structure_head

        return {"structures": fit_structure_head}


@dataclass(frozen=True)
class Free(LearnsFromOutputs):
    """The one of `Labels` and `Structures` that applies; or the untrained encoder, where neither
    does or where held-out rows of the bank do not favour it beyond noise.

    Examples:
        >>> bank = [Example(str(i), f"film {i}", ("bad", "good")[i % 2]) for i in range(20)]
        >>> list(Free().fits(bank))
        ['cosine', 'head']
    """

    name: ClassVar[str] = "free"
    title: ClassVar[str] = "free"
    version: ClassVar[int] = 4

    def fits(self, bank: Sequence[Example]) -> Mapping[str, Fit]:
        """Return the heads that apply, and `Cosine`, which stands for no head."""
        from ceil_jax.training.free.rows import Cosine

        fits: dict[str, Fit] = {"cosine": lambda rows, like=None: Cosine()}
        if labels_of(bank):
            fits |= Labels().fits(bank)
        if structure_parser_of(bank) is not None:
            fits |= Structures().fits(bank)
        return fits
