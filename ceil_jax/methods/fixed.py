"""A fixed prompt, which has the same examples for every query.

They are the set with which the LM answers other rows of the bank best. Providers cache such a
constant beginning of a prompt, which makes it cheaper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ceil_jax.errors import Range, UserError
from ceil_jax.methods.base import Learnt, Method, Steps

if TYPE_CHECKING:
    import numpy as np

    from ceil_jax.store.kept import Lazy

LEAST_ROWS = 4
"""The smallest number of rows in a round; with fewer, the scores of sets hardly differ."""


@dataclass(frozen=True)
class FixedPrompt(Method):
    """The best of several random sets of K examples, as measured on rows of the bank that are held
    back.

    The LM scores all sets on a few of these rows. The better half is scored on more rows, until each
    set has twice as many, and so on until one set is left: successive halving (Jamieson & Talwalkar,
    AISTATS 2016). An LM that gives no log-probabilities writes its answers, and the task's metric
    scores these.

    Examples:
        >>> FixedPrompt(sets=8, rows=4).rounds(bank_size=100)
        (4, 4, 8)
    """

    name: ClassVar[str] = "fixed"
    title: ClassVar[str] = "fixed prompt"
    sets: Annotated[int, Range(2)] = 32
    """Number of random sets."""
    rows: Annotated[int, Range(2)] = 16
    """Number of rows of the bank on which all sets are scored; the better half is scored on as many
    more, the best quarter on twice as many more, and so on."""

    def learn(self, steps: Steps) -> Learnt:
        """Find the fixed examples; no network is trained."""
        fixed = self.found(steps)
        return replace(steps.untrained(), fixed=fixed, training=fixed)

    def found(self, steps: Steps) -> Lazy[np.ndarray]:
        """Return the fixed examples, as bank positions.

        Raises:
            UserError: there are more fixed examples than the bank has beside the rows that score
                them.
        """
        size = self.fixed_count(steps.shots)
        rounds = self.rounds(len(steps.bank))
        others = len(steps.bank) - sum(rounds)
        if size > others:
            raise UserError(
                f"--shots: {size} fixed examples are drawn from the {others} examples of the bank on "
                "which they are not scored; ask for fewer, or give more rows"
            )
        firsts = accumulate(rounds, initial=0)
        rows = [
            steps.training_queries(count, after=first)
            for count, first in zip(rounds, firsts, strict=False)
        ]
        return steps.best_set(rows, self.sets, size)

    @property
    def gives_encoders(self) -> bool:
        """Always False: the method finds examples, and has no encoder to start from."""
        return False

    @property
    def scored_by_lm(self) -> bool:
        """Always True: the LM scores sets of fixed examples."""
        return True

    @property
    def learns_from_lm(self) -> bool:
        """Always True: the method needs LM tokens before the first query."""
        return True

    @property
    def needs_log_probs(self) -> bool:
        """Always False: without log-probabilities, the metric scores generated answers."""
        return False

    @property
    def training_query_count(self) -> int:
        """The number of rows of the bank on which sets are scored, over all rounds."""
        return self.rows * 2 ** (self._most_rounds - 1)

    @property
    def _most_rounds(self) -> int:
        """The number of rounds until one set is left."""
        return self.sets.bit_length() - 1

    def with_training_queries(self, count: int) -> Method:
        """Return the method with fewer rows in each round."""
        return replace(self, rows=min(self.rows, max(2, count >> (self._most_rounds - 1))))

    def smaller(self) -> Method | None:
        """Return the method with half the rows in each round, at least four."""
        return replace(self, rows=self.rows // 2) if self.rows >= 2 * LEAST_ROWS else None

    def is_used(self, summary: Mapping[str, Any]) -> bool:
        """Return True: the fixed examples are in every prompt."""
        return True

    def training_data(self, bank_size: int, summary: Mapping[str, Any]) -> str:
        """Return how many sets were scored, and on how many rows."""
        return (
            f"fixed prompt: the best of {summary['sets']} sets of {summary['size']}, on up to "
            f"{summary['rows']} rows"
        )

    def fixed_count(self, shots: int) -> int:
        """Return how many of the `shots` examples of a prompt are fixed: all of them."""
        return shots

    def rounds(self, bank_size: int) -> tuple[int, ...]:
        """Return the number of new rows in each round, at most half of the bank in all.

        Raises:
            UserError: the bank has fewer than four examples.
        """
        wanted = [self.rows] + [self.rows << number for number in range(self._most_rounds - 1)]
        remaining = bank_size // 2
        rounds: list[int] = []
        for rows in wanted:
            rounds.append(min(rows, remaining))
            remaining -= rounds[-1]
        if rounds[0] < 2:
            raise UserError(
                f"a bank of {bank_size} examples is too small to find a fixed prompt; give 4 or more"
            )
        return tuple(rows for rows in rounds if rows)
