"""EPR: a retriever of single examples, trained on the LM's scores of them.

Rubin et al., NAACL 2022.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from ceil_jax.errors import Range
from ceil_jax.methods.base import Effort, LearnsFromScores, Learnt, Method, Steps, TrainingJob
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
    """Contrastive training on candidate examples that the LM has scored one at a time.

    Examples:
        >>> from ceil_jax import RunConfig
        >>> RunConfig(methods=(EPR(epochs=3),)).row("epr").method.epochs
        3
    """

    name: ClassVar[str] = "epr"
    title: ClassVar[str] = "EPR"
    instances: Annotated[int, Range(2)] = field(default=400, metadata=NO_KEY)
    """Number of training queries, each with its candidates."""
    candidates: Annotated[int, Range(2)] = 20
    """Number of candidate examples of a query, which are scored one at a time."""
    start: Method = field(default=Untrained(), metadata=NO_KEY)
    """The method that training starts from. With base (untrained), BM25 finds the candidates; with
    another one, they are its nearest examples. The commands start from free, experiments from
    base."""

    def __post_init__(self) -> None:
        EPRTraining.__post_init__(self)
        LearnsFromScores.__post_init__(self)

    def learn(self, steps: Steps) -> Learnt:
        """Train the encoder to rank candidate examples by the LM's scores of them.

        Each candidate is scored alone.
        """
        start = steps.learnt(self.start)
        queries = steps.training_queries(self.instances)
        shared = steps.for_all_seeds  # which train on the same sets and scores
        sampler = self.candidate_sampler(len(steps.bank))
        sets = shared.candidate_sets(sampler, queries, shared.learnt(self.start))
        scores = shared.lm_scores(self, queries, sets)
        frozen = self.train_context == "frozen"
        return steps.trained(self, start, queries, sets, scores, bank_vectors=frozen)

    @property
    def two_networks(self) -> bool:
        """True if examples have a network of their own, as in EPR's paper."""
        return self.train_context == "both"

    def candidate_sampler(self, bank_size: int) -> Sampler:
        """Return the sampler of candidates: BM25, or the nearest examples by the start's encoders.

        With an untrained start, BM25 is used, as in EPR's paper.
        """
        from ceil_jax.training.samplers import LexicalSingles, NearestSingles

        count = min(self.candidates, bank_size - 1)
        return NearestSingles(count) if self.start.learns else LexicalSingles(count)

    def check(self) -> None:
        """Raise a UserError for an unknown loss."""
        from ceil_jax.training.losses import ceil_loss

        if self.loss != CONTRASTIVE:
            ceil_loss(self.loss, self.loss_options, self.flag("loss_options"))

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
        """Return a group number for each example of the bank.

        Examples of one group are never negatives of one another. None if every example may be a
        negative, as in the released code.
        """
        return None

    def effort(self) -> Effort:
        """Return the work of the training.

        Each query is encoded with a positive and a hard negative, or, for a loss over all
        candidates, with these unless they are frozen.
        """
        texts = 3
        if self.loss != CONTRASTIVE:
            texts = 1 if self.train_context == "frozen" else 1 + self.candidates
        return Effort(texts, self.epochs, self.batch_size)
