"""EPR (Rubin et al., NAACL 2022): a retriever of single examples that learns from the LM's scores of
them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from ceil_jax.errors import Range
from ceil_jax.methods.base import Effort, LearnsFromScores, Method, TrainingJob
from ceil_jax.methods.untrained import Untrained
from ceil_jax.store.hashing import NO_KEY
from ceil_jax.training.config import CONTRASTIVE, EPRTraining

if TYPE_CHECKING:
    from jaxtyping import Int
    from numpy import ndarray

    from ceil_jax.training.loop import Trained
    from ceil_jax.training.samplers import Sampler


@dataclass(frozen=True)
class EPR(EPRTraining, LearnsFromScores):
    """Contrastive training on candidates that the LM has scored one at a time.

    Examples:
        >>> from ceil_jax import RunConfig
        >>> RunConfig(methods=(EPR(epochs=3),)).row("epr").method.epochs
        3
    """

    name: ClassVar[str] = "epr"
    title: ClassVar[str] = "EPR"
    instances: Annotated[int, Range(2)] = field(default=400, metadata=NO_KEY)
    """Training queries, each with its candidates."""
    candidates: Annotated[int, Range(2)] = 20
    """Candidate examples of a query, scored one at a time."""
    start: Method = field(default=Untrained(), metadata=NO_KEY)
    """The method that training starts from: base (untrained), or another one, whose nearest
    examples are then the candidates."""

    def __post_init__(self) -> None:
        EPRTraining.__post_init__(self)
        LearnsFromScores.__post_init__(self)

    @property
    def two_networks(self) -> bool:
        """Examples learn a network of their own, as EPR's authors have it."""
        return self.train_context == "both"

    @property
    def reads_bank_vectors(self) -> bool:
        """Examples may keep the vectors of the starting weights while training."""
        return self.train_context == "frozen"

    def candidate_sampler(self, bank: int) -> Sampler:
        """Return BM25's candidates from the untrained encoder, else the nearest ones."""
        from ceil_jax.training.samplers import LexicalSingles, NearestSingles

        count = min(self.candidates, bank - 1)
        return NearestSingles(count) if self.start.learns else LexicalSingles(count)

    def check(self) -> None:
        """Refuse an unknown loss."""
        from ceil_jax.training.losses import ceil_loss

        if self.loss != CONTRASTIVE:
            ceil_loss(self.loss, self.loss_options)

    def fit(self, job: TrainingJob) -> Trained:
        """Train by InfoNCE with in-batch negatives, or by a loss over all candidates."""
        from ceil_jax.training.contrastive import train_epr

        return train_epr(
            job.query,
            job.data,
            self,
            seed=job.seed,
            folder=job.folder,
            groups=self.groups(job),
            bank_vectors=job.bank_vectors,
            title=self.title,
        )

    def groups(self, job: TrainingJob) -> Int[ndarray, " bank"] | None:
        """Return a number for each example, equal for those that are no negatives of one another;
        None where every example may be a negative, as in the released code."""
        return None

    def effort(self) -> Effort:
        """A query is encoded with a positive and a hard negative; for a loss over all candidates,
        with these, unless their vectors are frozen."""
        texts = 3
        if self.loss != CONTRASTIVE:
            texts = 1 if self.train_context == "frozen" else 1 + self.candidates
        return Effort(texts, self.epochs, self.batch_size)
