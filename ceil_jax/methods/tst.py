"""Target similarity tuning (Poesia et al., ICLR 2022): EPR's training with the similarity of
outputs as scores, which costs no LM tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from ceil_jax.errors import Range
from ceil_jax.methods.base import TrainingJob
from ceil_jax.methods.epr import EPR
from ceil_jax.store.hashing import NO_KEY

if TYPE_CHECKING:
    from jaxtyping import Int
    from numpy import ndarray


@dataclass(frozen=True)
class TST(EPR):
    """Contrastive training on candidates that are scored by how similar their outputs are to the
    query's.

    Examples:
        >>> TST().learns_from_lm
        False
    """

    name: ClassVar[str] = "tst"
    title: ClassVar[str] = "TST"
    scores: ClassVar[Literal["lm", "outputs"]] = "outputs"
    instances: Annotated[int, Range(2)] = field(default=2000, metadata=NO_KEY)
    """Number of training queries, each with its candidates."""
    candidates: Annotated[int, Range(2)] = 40
    """Number of candidate examples of a query."""
    epochs: Annotated[int, Range(1)] = 3
    """Passes over the training queries."""

    def groups(self, job: TrainingJob) -> Int[ndarray, " bank"]:
        """Return a group number for each example of the bank, equal for equal outputs: an example
        with the positive's output is never a negative."""
        import numpy as np

        _, groups = np.unique([example.output for example in job.data.bank], return_inverse=True)
        return groups
