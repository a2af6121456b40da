"""The examples of a run, with keys of their content.

The bank, queries, and queries that are taken from the bank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ceil_jax.store.hashing import digest
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.structures import PARSERS, structure_parser_of


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples of a task, with a key of their content."""

    examples: Sequence[Example]

    @cached_property
    def key(self) -> str:
        return digest(list(self.examples))

    def __len__(self) -> int:
        return len(self.examples)


@dataclass(frozen=True, eq=False)
class BankQueries(Examples):
    """Examples of the bank that training or tuning takes as queries."""

    bank: Examples
    positions: np.ndarray
    """int32 [Q]: the bank positions of the queries, ascending."""


@dataclass(frozen=True, eq=False)
class Bank(Examples):
    """The examples that may be chosen."""

    _queries: dict[bytes, BankQueries] = field(default_factory=dict, init=False, repr=False)

    def queries(self, positions: np.ndarray) -> BankQueries:
        """Return the examples at some positions as queries.

        The same positions always give the same object.
        """
        positions = np.sort(positions).astype(np.int32)
        queries = BankQueries([self.examples[i] for i in positions], self, positions)
        return self._queries.setdefault(positions.tobytes(), queries)

    @cached_property
    def pairs(self) -> bool:
        """True if every input is joined from two texts."""
        return are_pairs(self.examples)

    @cached_property
    def parser(self) -> str:
        """The name of the parser for outputs that are programs; "" if they are not."""
        parser = structure_parser_of(self.examples)
        return next((name for name, known in PARSERS.items() if known is parser), "")


def are_pairs(bank: Sequence[Example]) -> bool:
    """Return whether every input is joined from exactly two texts."""
    return all(len(example.texts) == 2 for example in bank)
