"""A run's examples, and views of them whose `input` is the retrieval text: the input itself, the
output, input and output, or a part. Those with skills are in `rewriting`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ceil_jax.pipeline.kept import Lazy, kept
from ceil_jax.store.hashing import digest
from ceil_jax.tasks.example import Example, context_text
from ceil_jax.tasks.structures import structure_parser_of
from ceil_jax.training.free.encoder import PARSERS, are_pairs, check_pairs


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
    """int32 [Q]: their bank positions, ascending."""


@dataclass(frozen=True, eq=False)
class Bank(Examples):
    """The examples that may be chosen."""

    _queries: dict[bytes, BankQueries] = field(default_factory=dict, init=False, repr=False)

    def queries(self, positions: np.ndarray) -> BankQueries:
        """Return the examples at some positions as queries. The same positions always give the same
        object."""
        positions = np.sort(positions).astype(np.int32)
        queries = BankQueries([self.examples[i] for i in positions], self, positions)
        return self._queries.setdefault(positions.tobytes(), queries)

    @cached_property
    def pairs(self) -> bool:
        """Whether every input is joined from two texts."""
        return are_pairs(self.examples)

    @cached_property
    def parser(self) -> str:
        """The name of the parser for outputs that are programs; "" if they are not."""
        parser = structure_parser_of(self.examples)
        return next((name for name, known in PARSERS.items() if known is parser), "")


Texts = Lazy[Sequence[Example]]
"""Examples whose `input` is the retrieval text: given by one of the functions below, or of
`rewriting`."""


@kept("inputs")
def inputs(rows: Examples) -> Sequence[Example]:
    """Return the examples themselves: their inputs are the retrieval texts."""
    return rows.examples


@kept("withoutputs")
def with_outputs(view: Sequence[Example]) -> Sequence[Example]:
    """Return the examples with their output after the input."""
    return [replace(example, input=context_text(example, "example")) for example in view]


@kept("outputs")
def outputs(rows: Examples) -> Sequence[Example]:
    """Return the examples with their output in place of the input."""
    return [replace(example, input=example.output) for example in rows.examples]


@kept("parts")
def parts(view: Sequence[Example]) -> Sequence[Example]:
    """Return an example for each of the two texts of every example's input, in order."""
    check_pairs(view)
    return [replace(example, input=text) for example in view for text in example.texts]


def source(view: Texts) -> Examples:
    """Return the task's examples that retrieval texts were made from."""
    given = view.given
    if "view" in given:
        return source(given["view"])
    return given["rows"] if "rows" in given else source(given["skills"][0])
