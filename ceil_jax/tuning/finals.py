"""The results of the finalists on the final rows, and which of them is recommended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ceil_jax.lm.price import Price
from ceil_jax.methods.row import Row
from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.tuning.loss import Loss
from ceil_jax.tuning.standing import Standing
from ceil_jax.tuning.verdict import Verdict


class ThenLM(NamedTuple):
    """The result of answering with a classifier where it is sure, and with the recommended prompt elsewhere."""

    threshold: float
    """The lowest probability of a label with which the classifier answers."""
    share: float
    """The share of the queries that reach the LM, from 0 to 1."""
    score: Interval
    minus: Interval
    """The difference to the recommended prompt, as in `WithoutLM`."""
    loss: Loss

    @property
    def label(self) -> str:
        """The name in tables."""
        return "classifier where sure, else the LM"


class WithoutLM(NamedTuple):
    """The result of answers that need no LM."""

    row: Row
    """The row that gave them: the classifier, or the nearest output, copied."""
    score: Interval
    minus: Interval
    """The row's score minus that of the recommended prompt, on the same rows."""
    loss: Loss
    """The loss to be expected if it is taken in place of the recommended prompt."""
    then_lm: ThenLM | None = None
    """The result of asking the LM only where the classifier is not sure; None if the one or the
    other answers everything."""

    @property
    def label(self) -> str:
        """The row's name in tables."""
        return self.row.label


@dataclass(frozen=True)
class Finals:
    """The results of the finalists on the same rows, with the verdict."""

    standings: tuple[Standing, ...]
    """The finalists; the winner of the race is the first."""
    verdict: Verdict
    """Which differences are significant. It numbers the finalists as `standings` does."""
    without_lm: WithoutLM | None = None
    """The answers without an LM; None if the task has none."""
    tolerance: float = 2.0
    """The largest expected loss, in points of the metric, of a cheaper prompt."""
    price: Price | None = None
    """The price of the LM's tokens; None if money is not shown."""

    @property
    def rows(self) -> int:
        """The number of rows that every finalist has answered."""
        return self.standings[0].rows

    @property
    def recommended(self) -> Standing:
        """The cheapest prompt that does as well as the winner."""
        return self.standings[self.verdict.recommended]

    @property
    def needs_no_lm(self) -> bool:
        """True if the answers without an LM are recommended.

        They are not significantly worse than the recommended prompt's, and their expected loss is
        at most the tolerance.
        """
        return self.without_lm is not None and self._does_as_well(self.without_lm)

    @property
    def then_lm(self) -> ThenLM | None:
        """The result of asking the LM only where the classifier is not sure, if that is
        recommended.

        It does as well as the prompt, and the classifier alone does not.
        """
        if self.without_lm is None or self.needs_no_lm:
            return None
        both = self.without_lm.then_lm
        return both if both is not None and self._does_as_well(both) else None

    def _does_as_well(self, result: WithoutLM | ThenLM) -> bool:
        minus = result.minus
        significantly_worse = minus.excludes_zero and minus.high < 0
        return not significantly_worse and 100 * result.loss.expected <= self.tolerance

    @property
    def label(self) -> str:
        """The label of what is recommended: a prompt, or a row that answers without an LM."""
        if self.without_lm is not None and self.needs_no_lm:
            return self.without_lm.label
        return self.recommended.label if self.then_lm is None else self.then_lm.label

    def cost(self, standing: Standing) -> float:
        """Return the cost of a prompt: LM tokens a query, or money if tokens have a price.

        The money is that for a thousand queries.
        """
        if self.price is None:
            return standing.tokens
        return self.price.of_queries(standing.usage)
