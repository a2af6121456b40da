"""Target similarity tuning (Poesia et al., ICLR 2022): EPR's training on the similarity of outputs,
which costs no LM tokens."""

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
    """Contrastive training on candidates whose outputs are compared with the query's.

    Examples:
        >>> TST().learns_from_lm
        False
    """

    name: ClassVar[str] = "tst"
    title: ClassVar[str] = "TST"
    scores: ClassVar[Literal["lm", "outputs"]] = "outputs"
    instances: Annotated[int, Range(2)] = field(default=2000, metadata=NO_KEY)
    """Training queries, each with its candidates."""
    candidates: Annotated[int, Range(2)] = 40
    """Candidate examples of a query, compared one at a time."""
    epochs: Annotated[int, Range(1)] = 3
    """Passes over the training queries."""

    def groups(self, job: TrainingJob) -> Int[ndarray, " bank"]:
        """An example with the positive's very output is no negative."""
        import numpy as np

        _, groups = np.unique([example.output for example in job.data.bank], return_inverse=True)
        return groups
