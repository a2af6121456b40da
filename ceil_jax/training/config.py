"""Settings of EPR, TST and CEIL training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ceil_jax.errors import Range


@dataclass(frozen=True)
class EPRConfig:
    """Training of a retriever of single examples.

    EPR learns from the LM's scores of candidates, and CEIL starts from it. TST learns from the
    similarity of their outputs to the query's output, which costs no LM tokens.
    """

    instances: Annotated[int, Range(2)] = 400
    """Training queries, each with its candidates."""
    candidates: Annotated[int, Range(2)] = 20
    """Candidate examples of a query, scored one at a time."""
    positives: Annotated[int, Range(1)] = 5
    """A positive is drawn from this many best-scored candidates, and a hard negative from as many
    worst ones."""
    epochs: Annotated[int, Range(1)] = 6
    """Passes over the training queries."""
    batch_size: Annotated[int, Range(1)] = 16
    """Queries a step; the positive and the hard negative of each are negatives of the others."""
    learning_rate: Annotated[float, Range(above=0)] = 3e-5
    """Peak of the learning-rate schedule."""
    clip: Annotated[float | None, Range(above=0)] = None
    """The largest global norm of a step's gradient (EPR's authors: 2.0); none by default."""
    initial: str = "base"
    """The encoders that training starts from: base (untrained), or those of another training, whose
    nearest examples are then the candidates."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""
    train_context: Literal["shared", "stopped", "both"] = "shared"
    """How examples are encoded: by the encoder of queries (shared); by it, but without a gradient
    through them, as in CEIL's released code (stopped); by a second encoder that learns too, as
    EPR's authors have it (both)."""


@dataclass(frozen=True)
class CEILConfig:
    """Training of CEIL on scored sets of examples."""

    instances: Annotated[int, Range(2)] = 1600
    """Training queries, each with its scored sets. Many queries with small sets teach more than few
    with large ones, for as many examples read by the LM (docs/recipe.md)."""
    subsets: Annotated[int, Range(2)] = 13
    """M: candidate sets of a query; the first is the top-k."""
    size: Annotated[int, Range(1)] = 3
    """k: examples in a set."""
    shortlist: Annotated[int, Range(1)] = 50
    """n: nearest examples that sets are drawn from."""
    sampler: Literal["random", "k_dpp", "bank"] = "random"
    """How sets are drawn. random: uniformly from the shortlist; k_dpp: from the k-DPP over the
    shortlist; bank: uniformly from the whole bank."""
    trade_off: Annotated[float | Literal["tuned"], Range(above=0)] = 0.05
    """λ of the kernel, in training and in MAP inference. tuned: chosen as --trade-off tuned does;
    training then takes the λ tuned for the encoder that it starts from."""
    initial: str = "epr"
    """The encoders that give the starting weights and the shortlists: base (untrained), or those of
    a training."""
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
    epochs: Annotated[int, Range(1)] = 3
    """Passes over the training queries."""
    batch_size: Annotated[int, Range(1)] = 16
    """Queries a step."""
    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Peak of the learning-rate schedule."""
    clip: Annotated[float | None, Range(above=0)] = None
    """The largest global norm of a step's gradient (the released code: 1.0); none by default."""
