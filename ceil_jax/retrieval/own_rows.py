"""The rows of a bank that are the same question as a query.

They are left out, so that no prompt contains its own answer.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from ceil_jax.tasks.example import Example
from ceil_jax.tasks.identity import question_key

log = logging.getLogger(__name__)

KnownBy = Literal["words", "id"]
"""How a query is recognised among the rows of the bank: by the words of its input, or by its id.
Ids are used if queries and bank are from one task, where many rows may have the same input, such as
a skill."""


class OwnRows:
    """A function that finds, for each query, the rows of a bank that are the same question.

    Such a row must not become an example, because it is the same question.

    >>> bank = [Example("a", "a fine film", "good"), Example("b", "a dull film", "bad")]
    >>> OwnRows(bank, "id")([bank[1], Example("c", "a long film", "")])
    [[1], []]
    """

    def __init__(self, bank: Sequence[Example], known_by: KnownBy) -> None:
        self._known_by = known_by
        self._warned = False
        self._positions: defaultdict[str, list[int]] = defaultdict(list)
        for position, example in enumerate(bank):
            self._positions[self._key(example)].append(position)

    def _key(self, example: Example) -> str:
        return example.id if self._known_by == "id" else question_key(example.input)

    def __call__(self, queries: Sequence[Example]) -> list[list[int]]:
        """Return the bank positions of each query's own rows.

        Log once how many queries have any.
        """
        own_positions = [self._positions.get(self._key(query), []) for query in queries]
        in_bank = sum(bool(positions) for positions in own_positions)
        if self._known_by == "words" and in_bank and not self._warned:
            self._warned = True
            log.warning(
                "%d of %d queries are in the bank; their own examples are left out, now and later",
                in_bank,
                len(queries),
            )
        return own_positions
