"""What EPR, TST and CEIL are trained with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class EPRConfig:
    """Retrievers of single examples: EPR, which CEIL starts from, is trained on the LM's scores of candidates; TST on
    how alike their outputs are to the query's, which costs no LM tokens."""

    instances: int = 400
    """Training queries, each with its candidates."""
    candidates: int = 20
    """Examples a query, scored one at a time."""
    positives: int = 5
    """A positive is drawn from this many best-scored candidates, a hard negative from as many worst."""
    epochs: int = 6
    """Passes over the instances."""
    batch_size: int = 16
    """Queries a step; each one's positive and hard negative are negatives to the others."""
    learning_rate: float = 3e-5
    """Peak of the schedule."""
    temperature: float = 0.05
    """Divides the inner products; 1 is the raw product, for encoders whose vectors are not unit length."""


@dataclass(frozen=True)
class CEILConfig:
    """Training on scored subsets."""

    instances: int = 400
    """Training queries, each scored with its subsets."""
    subsets: int = 20
    """M: subsets a query is scored with; the first is the top-k."""
    size: int = 8
    """k: examples a subset."""
    shortlist: int = 50
    """n: nearest examples that subsets are drawn from."""
    sampler: Literal["random", "tree", "k_dpp", "bank"] = "random"
    """How subsets are drawn from the shortlist: uniformly; uniformly, but so that they share the halves that
    open their prompts, which the LM then reads once; by the k-DPP. Or uniformly from the whole bank, not from the
    shortlist."""
    trade_off: float | Literal["tuned"] = 0.05
    """λ of the kernel, in training and in MAP inference; tuned: see the run's; training then takes the λ
    tuned for the encoder it starts from."""
    initial: Literal["epr", "tst", "base"] = "epr"
    """The weights to start from, and the encoder that shortlists."""
    train_context: Literal["frozen", "shared", "both"] = "frozen"
    """Which encoder of the examples learns: none, the query's own, or a second one."""
    loss: Literal["pairwise", "info_nce"] = "pairwise"
    """Ranking of all pairs, or the best subset against the rest."""
    reduction: Literal["pairs", "gap_mean"] = "pairs"
    """Of the pairwise loss: mean over pairs, or the released code's sum of means over rank gaps."""
    epochs: int = 6
    """Passes over the instances."""
    batch_size: int = 16
    """Queries a step."""
    learning_rate: float = 1e-5
    """Peak of the schedule."""
