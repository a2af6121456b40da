"""Training queries, their sets and the LM's scores of these; of one task, or of several as if they were one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.store.rows import Rows
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import Proposal


class Scored(NamedTuple):
    """What `epr` or `ceil` is trained on."""

    instances: list[Example]
    positions: np.ndarray
    """int32 [Q]: where they stand in the bank."""
    proposal: Proposal
    rows: Rows
    stage: str
    """The name of the scores' stage, which stands for all they depend on."""


def joined(parts: Sequence[Scored], banks: Sequence[int]) -> Scored:
    """The parts one after another, over a bank of all their banks one after another.

    Args:
        banks: the size of each part's bank.

    Raises:
        UserError: parts with different numbers of candidates, subsets or examples a subset.
    """
    shapes = {(part.proposal.shortlist.shape[1], *part.proposal.subsets.shape[1:]) for part in parts}
    if len(shapes) > 1:
        sizes = ", ".join(" × ".join(map(str, shape)) for shape in sorted(shapes))
        raise UserError(
            f"tasks to be trained on together need shortlists and subsets of one size, not {sizes}: the smallest "
            "bank sets it; lower --epr.candidates or --ceil.shortlist below its size"
        )
    starts = np.cumsum([0, *banks[:-1]])
    shortlists = [
        np.where(part.proposal.shortlist < 0, -1, part.proposal.shortlist + start)
        for part, start in zip(parts, starts, strict=True)
    ]
    return Scored(
        [example for part in parts for example in part.instances],
        np.concatenate([part.positions + start for part, start in zip(parts, starts, strict=True)]).astype(
            np.int32
        ),
        Proposal(
            np.concatenate(shortlists).astype(np.int32),
            np.concatenate([part.proposal.subsets for part in parts]),
        ),
        Rows([row for part in parts for row in part.rows], []),
        " ".join(part.stage for part in parts),
    )
