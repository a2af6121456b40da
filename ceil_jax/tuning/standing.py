"""The result of one candidate, in the race or on the final rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ceil_jax.lm.price import Usage
from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.tuning.candidates import Candidate


class Standing(NamedTuple):
    """A candidate's result in the race or on the final rows."""

    candidate: Candidate
    score: Interval
    """The metric on the rows that it answered, with a 95 % interval. On the tuning rows it is too
    high for the winner, which was chosen by it."""
    rows: int
    """The number of rows that the candidate answered."""
    usage: Usage
    """The tokens of a query."""
    preparing: int
    """The number of LM tokens that preparing the candidate took."""
    remark: str
    """How the race ended for the candidate, or the reason why it is a finalist."""
    troubles: Mapping[str, int] = {}
    """The number of the LM's answers that can hardly be right, by trouble (`pipeline.ways`)."""

    @property
    def label(self) -> str:
        """The candidate's name in tables."""
        return self.candidate.label

    @property
    def tokens(self) -> float:
        """The mean tokens of a prompt."""
        return self.usage.prompt
