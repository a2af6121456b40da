"""Settings of EPR, TST and CEIL training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ceil_jax.errors import Range, UserError


@dataclass(frozen=True)
class EPRConfig:
    """Training of a retriever of single examples.

    EPR learns from the LM's scores of candidates, and CEIL starts from it. TST learns from the similarity of their
    outputs to the query's output, which costs no LM tokens.
    """

    instances: Annotated[int, Range(2)] = 400
    """Training queries, each with its candidates."""
    candidates: Annotated[int, Range(2)] = 20
    """Candidate examples of a query, scored one at a time."""
    positives: Annotated[int, Range(1)] = 5
    """A positive is drawn from this many best-scored candidates, and a hard negative from as many worst ones."""
    epochs: Annotated[int, Range(1)] = 6
    """Passes over the training queries."""
    batch_size: Annotated[int, Range(1)] = 16
    """Queries a step; the positive and the hard negative of each are negatives of the others."""
    learning_rate: Annotated[float, Range(above=0)] = 3e-5
    """Peak of the learning-rate schedule."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""
    train_context: Literal["shared", "stopped", "both"] = "shared"
    """How examples are encoded: by the encoder of queries (shared); by it, but without a gradient through them, as in
    CEIL's released code (stopped); by a second encoder that learns too, as EPR's authors have it (both)."""


@dataclass(frozen=True)
class CEILConfig:
    """Training of CEIL on scored sets of examples."""

    instances: Annotated[int, Range(2)] = 1600
    """Training queries, each with its scored sets. Many queries with small sets teach more than few with large ones,
    for as many examples read by the LM (docs/recipe.md)."""
    subsets: Annotated[int, Range(2)] = 13
    """M: candidate sets of a query; the first is the top-k."""
    size: Annotated[int, Range(1)] = 3
    """k: examples in a set."""
    shortlist: Annotated[int, Range(1)] = 50
    """n: nearest examples that sets are drawn from."""
    sampler: Literal["random", "k_dpp", "bank"] = "random"
    """How sets are drawn. random: uniformly from the shortlist; k_dpp: from the k-DPP over the shortlist; bank:
    uniformly from the whole bank."""
    scores: Literal["sets", "singles"] = "sets"
    """What the LM scores. sets: every candidate set. singles: nothing besides EPR's candidates; sets are drawn among
    these, for EPR's training queries, and have the score of their best example."""
    trade_off: Annotated[float | Literal["tuned"], Range(above=0)] = 0.05
    """λ of the kernel, in training and in MAP inference. tuned: chosen as --trade-off tuned does; training then takes
    the λ tuned for the encoder that it starts from."""
    initial: Literal["epr", "tst", "base"] = "epr"
    """The encoder that gives the starting weights and the shortlists."""
    train_context: Literal["frozen", "shared", "both"] = "frozen"
    """How training encodes examples: once, with the starting weights (frozen); by the encoder of queries as it
    learns (shared); or by a second encoder that learns too (both), with which the default learning rate can lose
    far more than training gains; 1e-5 did not (docs/recipe.md). Afterwards the trained encoder of queries encodes
    examples too, unless both learn."""
    loss: str = "pairwise"
    """A registered loss: pairwise (all pairs of sets are ranked), info_nce (the best set against the rest), or one
    added with register_loss."""
    reduction: Literal["pairs", "gap_mean"] = "pairs"
    """How the pairwise loss is reduced: the mean over pairs, or the released code's sum of means over rank gaps."""
    loss_options: tuple[str, ...] = ()
    """Options of a loss added with register_loss, each as NAME=VALUE."""
    epochs: Annotated[int, Range(1)] = 3
    """Passes over the training queries."""
    batch_size: Annotated[int, Range(1)] = 16
    """Queries a step."""
    learning_rate: Annotated[float, Range(above=0)] = 1e-4
    """Peak of the learning-rate schedule."""

    def check_start(self, starts: Mapping[str, EPRConfig]) -> None:
        """Check that the encoder that training starts from is one encoder.

        Args:
            starts: the settings of the trainings that give one, by their names in `initial`.

        Raises:
            UserError: the start has an encoder of queries and another of examples.
        """
        if self.initial in starts and starts[self.initial].train_context == "both":
            raise UserError(
                f"--{self.initial}.train-context both: CEIL starts from one encoder; give shared, or --ceil.initial "
                "base"
            )


BASELINE: dict[str, dict[str, Any]] = {
    "EPRConfig": {
        "candidates": 20,
        "positives": 5,
        "epochs": 6,
        "batch_size": 16,
        "learning_rate": 3e-5,
        "temperature": 0.05,
    },
    "CEILConfig": {
        "subsets": 20,
        "size": 8,
        "shortlist": 50,
        "sampler": "random",
        "trade_off": 0.05,
        "initial": "epr",
        "train_context": "frozen",
        "loss": "pairwise",
        "reduction": "pairs",
        "epochs": 6,
        "batch_size": 16,
        "learning_rate": 1e-5,
    },
}
"""The value that each field had by default when the layout of training keys began (`store.keys`)."""
