"""The settings of the trainings of EPR, TST and CEIL.

`LoopSettings` are the settings of every training; `EPRTraining` and `CEILTraining` are those of
`contrastive.train_epr` and `ceil.train_ceil`. The methods (`ceil_jax.methods`) add settings of the
candidates and the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ceil_jax.errors import Range, UserError

CONTRASTIVE = "contrastive"
"""EPR's own loss, with one positive and one hard negative for each query
(`losses.epr_contrastive_loss`)."""

ENCODED_SETS = 4
"""Number of a query's candidate sets in a step that encodes their examples, by default."""


def registered_loss(name: str) -> Any:
    """Return a registered loss of CEIL by its name."""
    from ceil_jax.training.losses import LOSSES  # imported late, because it needs jax

    return LOSSES[name]


@dataclass(frozen=True)
class LoopSettings:
    """The settings of the training loop (`loop.fit`)."""

    epochs: Annotated[int, Range(1)] = 3
    """Passes over the training queries."""
    batch_size: Annotated[int, Range(1)] = 16
    """Queries in a step."""
    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """The peak of the learning-rate schedule."""
    clip: Annotated[float | None, Range(above=0)] = None
    """The largest allowed global norm of a gradient; longer gradients are scaled down to it (1.0 in
    CEIL's released code, 2.0 in EPR's). No limit by default."""


@dataclass(frozen=True)
class EPRTraining(LoopSettings):
    """The settings of a training on single examples."""

    epochs: Annotated[int, Range(1)] = 6
    """Passes over the training queries."""
    batch_size: Annotated[int, Range(1)] = 16
    """Queries in a step; with the contrastive loss, the positive and the hard negative of each are
    negatives of the others."""
    learning_rate: Annotated[float, Range(above=0)] = 3e-5
    """The peak of the learning-rate schedule."""
    loss: str = CONTRASTIVE
    """contrastive: one of a query's best candidates against one of its worst and the batch, as in
    EPR. Or a loss of CEIL, such as pairwise, over all of a query's candidates: these are then sets
    of one example in CEIL's training, with λ = temperature / 2, so that r / λ is cosine /
    temperature."""
    loss_options: tuple[str, ...] = ()
    """Options of a loss of CEIL, each as NAME=VALUE."""
    positives: Annotated[int, Range(1)] = 5
    """With the contrastive loss: the positive is drawn from this many of the best-scored
    candidates, and the hard negative from as many of the worst."""
    in_batch_negatives: bool = True
    """With the contrastive loss: whether the other queries' positives and hard negatives are also
    negatives. Otherwise a query's own hard negative is its only one."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""
    train_context: Literal["shared", "stopped", "both", "frozen"] = "shared"
    """The encoder of examples in training. shared: the query encoder; stopped: the same, without a
    gradient through the examples, as in CEIL's released code; both: a second encoder that is also
    trained, as in EPR's paper; frozen: the starting weights. stopped needs the contrastive loss,
    frozen a loss of CEIL."""

    @property
    def registered(self) -> tuple[Any, ...]:
        """The loss function, if it is one of CEIL's; if a plugin registered it, its code is part of the key."""
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
    """The encoder of examples in training. frozen: the starting weights, once; shared: the query
    encoder while it is trained; both: a second encoder that is also trained. With both, the default
    learning rate can make the encoders far worse than the starting ones; the paper's 1e-5 did not
    (docs/methods.md). After a training with frozen or shared, the trained query encoder encodes
    examples too. released: as frozen, but after training examples keep the starting encoder, as in
    the released code."""
    loss: str = "pairwise"
    """A registered loss. pairwise: a margin between all pairs of sets; its option reduction is
    pairs, their mean, or gap_mean, the released code's sum of means over rank gaps. logistic: DPO's
    loss of all pairs, with the option beta. info_nce: the best set against the others. Or one added
    with register_loss."""
    loss_options: tuple[str, ...] = ()
    """Options of the loss, each as NAME=VALUE."""
    sets_per_step: Annotated[int | Literal["auto", "all"], Range(1)] = "auto"
    """How many of each query's candidate sets a step uses, drawn anew in every step: a number, or
    all. auto: all if examples are frozen, which costs nothing, and 4 if a step encodes the examples
    of its sets. The loss compares only the sets of a step: 4 sets have 6 pairs, 50 have 1,225."""

    @property
    def registered(self) -> tuple[Any, ...]:
        """The loss function; if a plugin registered it, its code is part of the key."""
        return (registered_loss(self.loss),)

    @property
    def frozen_examples(self) -> bool:
        """True if examples keep the vectors of the starting weights during training."""
        return self.train_context in ("frozen", "released")

    def sets_in_a_step(self, candidate_sets: int) -> int:
        """Return how many of a query's candidate sets a step uses."""
        if self.sets_per_step == "auto":
            return candidate_sets if self.frozen_examples else min(ENCODED_SETS, candidate_sets)
        if self.sets_per_step == "all":
            return candidate_sets
        return min(self.sets_per_step, candidate_sets)
