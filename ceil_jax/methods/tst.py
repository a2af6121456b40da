"""Target similarity tuning: EPR's training with the similarity of outputs as scores.

Poesia et al., ICLR 2022. No LM is called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from ceil_jax.errors import Range
from ceil_jax.methods.base import Learnt, Steps, TrainingJob
from ceil_jax.methods.epr import EPR
from ceil_jax.store.hashing import NO_KEY

if TYPE_CHECKING:
    from jaxtyping import Int
    from numpy import ndarray


@dataclass(frozen=True)
class TST(EPR):
    """Contrastive training on candidates that are scored by the similarity of outputs.

    A candidate's score is how similar its output is to the query's.

    Examples:
        >>> TST().learns_from_lm
        False
    """

    name: ClassVar[str] = "tst"
    title: ClassVar[str] = "TST"
    instances: Annotated[int, Range(2)] = field(default=2000, metadata=NO_KEY)
    """Number of training queries, each with its candidates."""
    candidates: Annotated[int, Range(2)] = 40
    """Number of candidate examples of a query."""
    epochs: Annotated[int, Range(1)] = 3
    """Passes over the training queries."""

    def learn(self, steps: Steps) -> Learnt:
        """Train the encoder to rank candidates by the similarity of their outputs to the query's."""
        start = steps.learnt(self.start)
        queries = steps.training_queries(self.instances)
        shared = steps.for_all_seeds  # which train on the same sets and scores
        sampler = self.candidate_sampler(len(steps.bank))
        sets = shared.candidate_sets(sampler, queries, shared.learnt(self.start))
        scores = shared.output_scores(queries, sets)
        frozen = self.train_context == "frozen"
        return steps.trained(self, start, queries, sets, scores, bank_vectors=frozen)

    @property
    def scored_by_lm(self) -> bool:
        """Always False: outputs are compared, without an LM."""
        return False

    def groups(self, job: TrainingJob) -> Int[ndarray, " bank"]:
        """Return a group number for each example of the bank, equal for equal outputs.

        An example with the positive's output is never a negative.
        """
        import numpy as np

        _, groups = np.unique([example.output for example in job.data.bank], return_inverse=True)
        return groups
