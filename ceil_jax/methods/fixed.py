"""A fixed prompt: the same examples for every query, chosen so that the LM answers other rows of
the bank best. Providers cache such a constant beginning of a prompt, which makes it cheaper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

from ceil_jax.errors import Range, UserError
from ceil_jax.methods.base import Method
from ceil_jax.methods.untrained import Untrained

DOUBLINGS = 3
"""Number of final rounds. Each halves the sets and doubles the rows."""

LEAST_ROWS = 4
"""The fewest rows in a round: with fewer, sets cannot be told apart."""


@dataclass(frozen=True)
class WithFixedExamples(Method):
    """A method whose prompts begin with the same examples for every query.

    The LM finds these examples: it scores sets of them before the first query.
    """

    @property
    def gives_encoders(self) -> bool:
        """No training can start from it: it finds examples."""
        return False

    @property
    def scored_by_lm(self) -> bool:
        """The LM scores sets of fixed examples."""
        return True

    @property
    def learns_from_lm(self) -> bool:
        """It needs LM tokens before the first query."""
        return True

    def is_used(self, summary: Mapping[str, Any]) -> bool:
        """The fixed examples are in every prompt."""
        return True

    def fixed_part(self, shots: int, bank_size: int) -> FixedPart:
        """Return the fixed part of a prompt.

        Args:
            shots: number of examples in a prompt.
            bank_size: number of examples in the bank.

        Raises:
            UserError: the prompt has no place for fixed examples, or the bank or the pool is too
                small.
        """
        raise TypeError(f"{type(self).__name__} does not define `fixed_part`")


@dataclass(frozen=True)
class FixedPrompt(WithFixedExamples):
    """The K examples of a pool with which the LM answers best, measured on rows of the bank that
    are held back from the pool.

    1. Random sets from the pool, balanced over labels, are scored on the first of these rows.
    2. A ridge regression on these scores estimates the effect of each example (Chang & Jia, ACL
       2023); sets that should be better are scored on the same rows, in waves (after CASE, ICML
       2025).
    3. The best sets are scored on more rows, the better half of them on twice as many, and so on.

    An LM that gives no log-probabilities generates its answers, and the task's metric scores these.
    """

    name: ClassVar[str] = "fixed"
    title: ClassVar[str] = "fixed prompt"
    pool: Annotated[int, Range(2)] = 60
    """Number of examples that sets are drawn from: typical of the bank, different from one another,
    and equally many of each label."""
    sets: Annotated[int, Range(2)] = 48
    """Number of random sets that are scored first."""
    challengers: Annotated[int, Range(0)] = 16
    """Number of sets in a wave, chosen by the scores of all sets before."""
    waves: Annotated[int, Range(0)] = 2
    """Number of waves of challengers."""
    finalists: Annotated[int, Range(1)] = 8
    """Number of best sets that are scored on further rows."""
    rows: Annotated[int, Range(2)] = 16
    """Number of rows on which every set is scored. The finalists get as many more, half of them
    twice as many more, a quarter four times as many more."""

    @property
    def encoders_of(self) -> Method:
        """The untrained encoder, which compares the examples of the pool."""
        return Untrained()

    @property
    def trains_networks(self) -> bool:
        """No network is trained."""
        return False

    @property
    def training_query_count(self) -> int:
        """The number of rows of the bank on which sets are scored, over all rounds."""
        return self.rows * 2**DOUBLINGS

    def with_training_queries(self, count: int) -> Method:
        """Return the method with fewer rows in each round."""
        return replace(self, rows=min(self.rows, max(2, count // 2**DOUBLINGS)))

    def smaller(self) -> Method | None:
        """Return the method with half the rows in each round, at least four."""
        return replace(self, rows=self.rows // 2) if self.rows >= 2 * LEAST_ROWS else None

    @property
    def needs_log_probs(self) -> bool:
        """Without log-probabilities, generated answers are scored by the metric."""
        return False

    def training_data(self, bank_size: int, summary: Mapping[str, Any]) -> str:
        """Return how many sets were scored, and on how many rows."""
        return (
            f"{self.title}: the best of {summary['sets']} sets of {summary['size']}, on up to "
            f"{summary['rows']} rows"
        )

    def fixed_part(self, shots: int, bank_size: int) -> FixedPart:
        """Return the fixed part of a prompt: all of its examples.

        Args:
            shots: number of examples in a prompt.
            bank_size: number of examples in the bank.

        Raises:
            UserError: the bank or the pool is too small.
        """
        return FixedPart(self, shots, self.rounds(bank_size), self.pool_size(bank_size, shots))

    def rounds(self, bank_size: int) -> tuple[int, ...]:
        """Return the number of rows in each round, at most half of a bank of `bank_size`
        examples in all.

        Raises:
            UserError: the bank has fewer than four examples.
        """
        # all sets have `rows` rows; the finalists as many more, then twice as many, …
        wanted = [self.rows] + [self.rows * 2**doubling for doubling in range(DOUBLINGS)]
        remaining = bank_size // 2
        rounds: list[int] = []
        for rows in wanted:
            if remaining > 0:
                rounds.append(min(rows, remaining))
                remaining -= rows
        if not rounds or rounds[0] < 2:
            raise UserError(
                f"a bank of {bank_size} examples is too small to find a fixed prompt; give 4 or more"
            )
        return tuple(rounds)

    def pool_size(self, bank_size: int, size: int) -> int:
        """Return the size of the pool, for sets of `size` examples of a bank.

        Args:
            bank_size: number of examples in the bank.
            size: number of examples in a set.

        Raises:
            UserError: `size` is larger than the pool.
        """
        pool = min(self.pool, bank_size - sum(self.rounds(bank_size)))
        if size > pool:
            raise UserError(
                f"--shots: {size} fixed examples are drawn from a pool of {pool}; ask for fewer, or "
                f"raise {self.flag('pool')} (at most half of the bank is held back from it)"
            )
        return pool


class FixedPart(NamedTuple):
    """The part of a prompt's examples that is the same for every query."""

    method: FixedPrompt
    """The method that finds them."""
    size: int
    """The number of fixed examples."""
    rounds: tuple[int, ...]
    """The number of rows on which sets are scored in each round."""
    pool: int
    """The number of examples of the bank that sets are drawn from."""
