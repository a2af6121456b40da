"""A fixed prompt: the same examples for every query, those with which the LM answers rows of the
bank best. Providers keep such a beginning of a prompt in a cache, where it costs less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

from ceil_jax.errors import Range, UserError
from ceil_jax.methods.base import Method
from ceil_jax.methods.untrained import Untrained

DOUBLINGS = 3
"""Rounds of the finalists: each halves them, and has twice as many rows as the one before."""


LEAST_ROWS = 4
"""Rows of a round below which sets cannot be told apart."""


@dataclass(frozen=True)
class FixedPrompt(Method):
    """The K examples of a pool that serve all queries best, by the LM's answers to rows of the bank
    that are held back from the pool.

    1. Random sets of the pool, balanced over labels, are scored on the first of these rows.
    2. A ridge on these scores says what each example is worth (Chang & Jia, ACL 2023); sets that
       could be better by it are scored on the same rows, in waves (after CASE, ICML 2025).
    3. The best sets are scored on more rows, half of them on twice as many, and so on.

    An LM that gives no log-probabilities writes its answers, and the task's metric scores them.
    """

    name: ClassVar[str] = "fixed"
    title: ClassVar[str] = "fixed prompt"
    pool: Annotated[int, Range(2)] = 60
    """Examples among which sets are drawn: typical, different, and as many of each label."""
    sets: Annotated[int, Range(2)] = 48
    """Random sets that are scored first."""
    challengers: Annotated[int, Range(0)] = 16
    """Sets of a wave that could be better by the scores of all before them."""
    waves: Annotated[int, Range(0)] = 2
    """Waves of challengers."""
    finalists: Annotated[int, Range(1)] = 8
    """The best sets, which are scored on further rows."""
    rows: Annotated[int, Range(2)] = 16
    """Rows that score every set; the finalists have as many more, then half of them twice as many,
    then a quarter four times as many."""

    @property
    def encoders_of(self) -> Method:
        """Examples of the pool are compared by the untrained encoder."""
        return Untrained()

    @property
    def trains_networks(self) -> bool:
        """Encoders stay as they are."""
        return False

    @property
    def gives_encoders(self) -> bool:
        """It finds examples; no training starts from it."""
        return False

    @property
    def training_queries(self) -> int:
        """The rows of the bank that score sets, in all rounds."""
        return self.rows * 2**DOUBLINGS

    def with_training_queries(self, count: int) -> Method:
        """Return the method with fewer rows in each round."""
        return replace(self, rows=min(self.rows, max(2, count // 2**DOUBLINGS)))

    def smaller(self) -> Method | None:
        """Return the method with half the rows in each round, at least four."""
        return replace(self, rows=self.rows // 2) if self.rows >= 2 * LEAST_ROWS else None

    @property
    def scored_by_lm(self) -> bool:
        """The LM scores every set."""
        return True

    @property
    def learns_from_lm(self) -> bool:
        """It spends LM tokens before the first query."""
        return True

    @property
    def needs_log_probs(self) -> bool:
        """Where there are none, answers are written and scored by the metric."""
        return False

    def is_used(self, summary: Mapping[str, Any]) -> bool:
        """Its examples are in every prompt."""
        return True

    def training_data(self, bank: int, summary: Mapping[str, Any]) -> str:
        """Return how many sets were scored, and on how many rows."""
        return (
            f"{self.title}: the best of {summary['sets']} sets of {summary['size']}, on up to "
            f"{summary['rows']} rows"
        )

    def fixed_part(self, shots: int) -> FixedPart:
        """Return that all of a prompt's examples are fixed."""
        return FixedPart(self, shots)

    def rounds(self, bank: int) -> tuple[int, ...]:
        """Return the rows of each round from a bank of so many examples, at most half of it.

        Raises:
            UserError: the bank is too small for two rows.
        """
        left = bank // 2
        found = []
        for rows in (self.rows, *(self.rows * 2**i for i in range(DOUBLINGS))):
            if left > 0:
                found.append(min(rows, left))
                left -= rows
        if not found or found[0] < 2:
            raise UserError(
                f"a bank of {bank} examples is too small to find a fixed prompt; give 4 or more"
            )
        return tuple(found)

    def pool_size(self, bank: int, size: int) -> int:
        """Return the size of the pool for sets of `size` from a bank of so many examples.

        Raises:
            UserError: a set has more examples than the pool.
        """
        pool = min(self.pool, bank - sum(self.rounds(bank)))
        if size > pool:
            raise UserError(
                f"--shots: {size} fixed examples are drawn from a pool of {pool}; ask for fewer, or "
                f"raise --{self.name}.pool (at most half of the bank is held back from it)"
            )
        return pool


class FixedPart(NamedTuple):
    """The examples of a prompt that are the same for every query."""

    method: FixedPrompt
    """Finds them."""
    size: int
    """How many they are."""
