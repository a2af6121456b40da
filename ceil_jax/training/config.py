"""The settings of EPR's, TST's and CEIL's trainings.

`LoopSettings` is what every training has, `EPRTraining` and `CEILTraining` are what
`contrastive.train_epr` and `ceil.train_ceil` read. The methods (`ceil_jax.methods`) add the
candidates that a training learns from, and where it starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ceil_jax.errors import Range, UserError

CONTRASTIVE = "contrastive"
"""EPR's own loss, of one positive and one hard negative a query (`losses.epr_contrastive_loss`)."""

ENCODED_SETS = 4
"""Candidate sets of a query in a step that encodes their examples, unless a setting says more."""


def registered_loss(name: str) -> Any:
    """Return the loss of CEIL that is registered under a name."""
    from ceil_jax.training.losses import LOSSES  # needs jax, which settings do not

    return LOSSES[name]


@dataclass(frozen=True)
class LoopSettings:
    """The settings of the training loop (`loop.fit`)."""

    epochs: Annotated[int, Range(1)] = 3
    """Passes over the training queries."""
    batch_size: Annotated[int, Range(1)] = 16
    """Queries a step."""
    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Peak of the learning-rate schedule."""
    clip: Annotated[float | None, Range(above=0)] = None
    """The largest global norm of a step's gradient (CEIL's released code: 1.0, EPR's: 2.0); none by
    default."""


@dataclass(frozen=True)
class EPRTraining(LoopSettings):
    """The settings of a training on single examples."""

    epochs: Annotated[int, Range(1)] = 6
    """Passes over the training queries."""
    batch_size: Annotated[int, Range(1)] = 16
    """Queries a step; with the contrastive loss the positive and the hard negative of each are
    negatives of the others."""
    learning_rate: Annotated[float, Range(above=0)] = 3e-5
    """Peak of the learning-rate schedule."""
    loss: str = CONTRASTIVE
    """contrastive: one of a query's best candidates against one of its worst and the batch, as in
    EPR; or a loss of CEIL, such as pairwise, over all of a query's candidates, which are then sets
    of one example to CEIL's training, with λ = temperature / 2 (r / λ is cosine / temperature)."""
    loss_options: tuple[str, ...] = ()
    """Options of a loss of CEIL, each as NAME=VALUE."""
    positives: Annotated[int, Range(1)] = 5
    """With the contrastive loss: a positive is drawn from this many best-scored candidates, and a
    hard negative from as many worst ones."""
    in_batch_negatives: bool = True
    """With the contrastive loss: whether the other queries' positives and hard negatives are
    negatives too. Without them a query's own hard negative is its only one."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""
    train_context: Literal["shared", "stopped", "both", "frozen"] = "shared"
    """How examples are encoded: by the encoder of queries (shared); by it, but without a gradient
    through them, as in CEIL's released code (stopped); by a second encoder that learns too, as
    EPR's authors have it (both); while training, by the starting weights (frozen). stopped needs
    the contrastive loss, frozen one of CEIL's."""

    @property
    def registered(self) -> tuple[Any, ...]:
        """The loss of CEIL, whose code is in keys."""
        return () if self.loss == CONTRASTIVE else (registered_loss(self.loss),)

    def __post_init__(self) -> None:
        contrastive = self.loss == CONTRASTIVE
        if self.train_context == "frozen" and contrastive:
            raise UserError(
                "train-context frozen goes with a loss over all candidates: give a loss of CEIL, "
                "such as pairwise, or another train-context"
            )
        if self.train_context == "stopped" and not contrastive:
            raise UserError(
                f"train-context stopped goes with the contrastive loss, not with {self.loss}: give "
                "shared, both or frozen"
            )


@dataclass(frozen=True)
class CEILTraining(LoopSettings):
    """The settings of a training on sets of examples."""

    train_context: Literal["frozen", "released", "shared", "both"] = "frozen"
    """How training encodes examples: once, with the starting weights (frozen); by the encoder of
    queries as it learns (shared); or by a second encoder that learns too (both), with which the
    default learning rate can lose far more than training gains; 1e-5 did not (docs/recipe.md), as
    in the paper. Afterwards the trained encoder of queries encodes examples too, unless both learn,
    or it is trained as the released code does (released): then examples keep the starting
    encoder."""
    loss: str = "pairwise"
    """A registered loss: pairwise (all pairs of sets are ranked; option reduction: pairs, the mean
    over them, or gap_mean, the released code's sum of means over rank gaps), logistic (the same
    with DPO's loss, option beta), info_nce (the best set against the rest), or one added with
    register_loss."""
    loss_options: tuple[str, ...] = ()
    """Options of the loss, each as NAME=VALUE."""
    sets_per_step: Annotated[int | Literal["auto", "all"], Range(1)] = "auto"
    """Candidate sets of each query in a step, drawn anew in every step: a number, or all of them.
    auto: all where examples are frozen, which costs nothing, and 4 where a step encodes the
    examples of its sets. A loss compares the sets of a step only: 4 sets have 6 pairs, 50 have
    1,225."""

    @property
    def registered(self) -> tuple[Any, ...]:
        """The loss, whose code is in keys."""
        return (registered_loss(self.loss),)

    @property
    def frozen_examples(self) -> bool:
        """Return whether examples keep the vectors of the starting weights while training."""
        return self.train_context in ("frozen", "released")

    def sets_in_a_step(self, candidate_sets: int) -> int:
        """Return how many of a query's candidate sets a step takes."""
        if self.sets_per_step == "auto":
            return candidate_sets if self.frozen_examples else min(ENCODED_SETS, candidate_sets)
        if self.sets_per_step == "all":
            return candidate_sets
        return min(self.sets_per_step, candidate_sets)
