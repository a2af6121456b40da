"""A bank of examples with vectors; examples can be added and removed while other threads read it.

Readers use a `Snapshot`, which never changes; a writer replaces it by a new one.
"""

from __future__ import annotations

import copy
import math
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.dpp.kernel import rescaled, similarity
from ceil_jax.errors import UserError
from ceil_jax.retrieval.ranking import descending
from ceil_jax.selector.filters import (
    asks_the_same,
    check_filter,
    group_reader,
    passes_filter,
    question,
)
from ceil_jax.selector.settings import CallSettings
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.identity import question_key
from ceil_jax.tasks.labels import label_names

QUERIES_AT_ONCE = 64
"""The number of queries that are scored against the bank in one matrix product."""

FIRST_SORTED = 4
"""The factor of the first search: it sorts the best 4 n, of which usually n pass the filter and repeat no text."""


MOST_ALIKE = 0.99
"""Upper bound on the mean cosine of a bank, whose examples may all be copies of one."""


class Shortlist(NamedTuple):
    """The examples to choose from for one query, followed by the fixed ones."""

    examples: list[Example]
    vectors: np.ndarray
    """The unit vectors of the examples, float32 [n, D]."""
    cosines: np.ndarray
    """The cosines of the examples with the query, float32 [n]."""
    excluded: int
    """The number of examples that were left out because they are the query's own question."""
    distant: float | None = None
    """The relevance of the nearest example that `min_relevance` left out; None if it left out
    none."""
    origin: float = 0.0
    """The cosine that counts as 0."""
    fixed: int = 0
    """How many of the last examples are fixed; they are in prompt order, and the choice is among
    the others."""


@dataclass(frozen=True)
class Snapshot:
    """The bank at one moment. The row of a removed example stays, but is not live."""

    examples: list[Example]
    """The examples. The list is shared with later snapshots, which append to it; those of this one
    are the first `len(live)`."""
    vectors: np.ndarray
    """float32 [N, D], unit rows."""
    live: np.ndarray
    """bool [N]: whether each row's example is in the bank."""

    def __iter__(self) -> Iterator[Example]:
        """Iterate over the live examples, in the order they were added."""
        return (self.examples[row] for row in np.flatnonzero(self.live).tolist())

    @property
    def dim(self) -> int | None:
        """The length of the vectors; None if there has never been an example."""
        return self.vectors.shape[1] or None

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each live example, by its id."""
        return {self.examples[row].id: row for row in np.flatnonzero(self.live).tolist()}

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The different outputs of the live examples, and their choices (`tasks.labels`)."""
        return label_names(self)

    @property
    def live_vectors(self) -> np.ndarray:
        return self.vectors if self.live.all() else self.vectors[self.live]

    @cached_property
    def mean_cosine(self) -> float:
        """The mean cosine of all pairs of live examples, from 0 to MOST_ALIKE.

        0 for fewer than two.
        """
        count = int(self.live.sum())
        if count < 2:
            return 0.0
        # Σ cos over all pairs, each twice, is |Σ v|² less the examples' own cosines of 1
        total = self.live_vectors.sum(axis=0, dtype=np.float64)
        mean = float((total @ total - count) / (count * (count - 1)))
        return min(max(0.0, mean), MOST_ALIKE)

    def shortlists(
        self, queries: Sequence[Example], vectors: np.ndarray, call: CallSettings
    ) -> Iterator[Shortlist]:
        """Yield the shortlist of each query: the nearest examples that may be chosen.

        `vectors` are the queries' unit vectors, float32 [Q, D].

        The search uses numpy: moving the bank to a device for one query costs more than reading it,
        and a growing bank would be compiled again and again. A UserError for balance over more
        values than the shortlist is long, and for a filter on a field or value that no example has.
        """
        most = call.size
        if call.balance is not None:
            values = set(map(group_reader(call), filter(passes_filter(call), self)))
            if len(values) > call.size:
                raise UserError(
                    f"balance={call.balance!r}: there are {len(values)} different values, more "
                    f"than the shortlist of {call.size}; balance is for fields with few values"
                )
            most = math.ceil(call.size / max(len(values), 1))
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            block = slice(start, start + QUERIES_AT_ONCE)
            scores = np.zeros((len(queries[block]), 0), np.float32)
            if len(self.live):
                scores = vectors[block] @ self.vectors.T
                scores[:, ~self.live] = -np.inf
            for query, cosines in zip(queries[block], scores, strict=True):
                yield self._shortlist(query, cosines, call, most)

    def _shortlist(
        self, query: Example, cosines: np.ndarray, call: CallSettings, most: int
    ) -> Shortlist:
        """The shortlist of one query.

        No two examples are the same question with the same output, and at most `most` have the same
        value of the balanced field.
        """
        passes = passes_filter(call)
        asks_it = asks_the_same(query, call.template)
        group = group_reader(call)
        rows: list[int] = []
        fixed = self._fixed(call)
        allowed = fixed
        if not call.own_answer:
            allowed = [row for row in fixed if not asks_it(self.examples[row])]
        excluded = len(fixed) - len(allowed)
        # no example is chosen that repeats a fixed one, even if that one is left out
        names = call.template.fields
        texts = {_text(self.examples[row], names) for row in fixed}
        origin = self.mean_cosine if call.origin is None else call.origin
        counts: Counter[str | None] = Counter()
        distant = None
        for row in descending(cosines, FIRST_SORTED * call.size):
            example = self.examples[row]
            text = _text(example, names)
            value = group(example)
            if counts[value] >= most or text in texts or not passes(example):
                continue
            if not call.own_answer and asks_it(example):
                excluded += 1
                continue
            relevance = float(similarity(rescaled(cosines[row], origin)))
            if call.min_relevance is not None and relevance < call.min_relevance:
                distant = relevance
                break
            rows.append(row)
            texts.add(text)
            counts[value] += 1
            if len(rows) == call.size:
                break
        if not rows and not excluded and distant is None:
            check_filter(call, self)
        rows += allowed
        examples = [self.examples[row] for row in rows]
        vectors = self.vectors[rows]
        return Shortlist(examples, vectors, cosines[rows], excluded, distant, origin, len(allowed))

    def _fixed(self, call: CallSettings) -> list[int]:
        """The rows of the fixed examples. A UserError for an id that no example has."""
        unknown = [id for id in call.fixed if id not in self.rows]
        if unknown:
            raise UserError(
                f"fixed: no example with id {unknown[0]!r} in the bank; add it, or set "
                "selector.fixed to ids that are there"
            )
        return [self.rows[id] for id in call.fixed]


def _text(example: Example, names: Sequence[str]) -> tuple[str, ...]:
    """A key that is equal for examples of the same question (`filters.question`) and output."""
    return (*question(example, names), question_key(example.output))


def _content(example: Example) -> tuple[str, str, frozenset[tuple[str, str]]]:
    """A key that is equal for examples with the same content."""
    return example.input, example.output, frozenset(example.fields.items())


class Bank:
    """A bank that can change: its current snapshot, and adding and removing examples.

    It starts with examples with distinct ids and their unit vectors, float32 [N, D], which may be
    memory-mapped and are never written to. `next_id` is the number for the next example without an
    id.
    """

    def __init__(self, examples: list[Example], vectors: np.ndarray, next_id: int = 0) -> None:
        self._rows = {example.id: row for row, example in enumerate(examples)}
        self.snapshot = Snapshot(examples, vectors, np.ones(len(examples), bool))
        self._room = vectors
        """The vectors of the snapshot, in an array with free rows for further ones."""
        self.next_id = next_id
        self._changing = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def __copy__(self) -> Bank:
        """An independent copy of the bank.

        It shares the vectors if all are live, because they are never written to.
        """
        with self._changing:
            return type(self)(list(self.snapshot), self.snapshot.live_vectors, self.next_id)

    def __deepcopy__(self, memo: dict[int, Any]) -> Bank:
        """The same as `copy.copy`, whose copies are already independent."""
        return copy.copy(self)

    def __reduce__(self) -> Any:
        """The live examples, which are all that is pickled."""
        with self._changing:
            vectors = np.asarray(self.snapshot.live_vectors)
            return type(self), (list(self.snapshot), vectors, self.next_id)

    def known(self, examples: Sequence[Example]) -> list[str | None]:
        """Return the id of an equal example in the bank for each example; None for new ones.

        Equal examples have the same input, output, fields and, if given, id.

        Raises:
            UserError: an id is that of another example, or occurs twice.
        """
        with self._changing:
            bank = list(self.snapshot)
            with_id = {(example.id, _content(example)) for example in bank}
            ids = {_content(example): example.id for example in bank}
            known: list[str | None] = []
            for example in examples:
                content = _content(example)
                is_known = not example.id or (example.id, content) in with_id
                known.append((example.id or ids.get(content)) if is_known else None)
            self._check_ids([e for e, id in zip(examples, known, strict=True) if id is None])
        return known

    def add(self, examples: Sequence[Example], vectors: np.ndarray) -> list[str]:
        """Append n examples with their unit vectors, float32 [n, D], and return their ids.

        Examples without an id get one.
        """
        if not examples:
            return []
        with self._changing:
            snapshot = self.snapshot
            added = self._with_ids(examples)
            start = len(snapshot.live)
            stop = len(snapshot.live) + len(added)
            if stop > len(self._room):
                # at least twice as many rows, so that adding one by one does not copy all each time
                self._room = np.empty((max(stop, 2 * start), vectors.shape[1]), np.float32)
                if start:
                    self._room[:start] = snapshot.vectors
            self._room[start:stop] = vectors
            snapshot.examples.extend(added)
            self._rows |= {example.id: start + i for i, example in enumerate(added)}
            live = np.concatenate([snapshot.live, np.ones(len(added), bool)])
            self.snapshot = Snapshot(snapshot.examples, self._room[:stop], live)
            return [example.id for example in added]

    def _check_ids(self, examples: Sequence[Example]) -> Collection[str]:
        """Return the ids of new examples. A UserError if one is in the bank already."""
        counts = Counter(example.id for example in examples if example.id)
        known = next((id for id, count in counts.items() if count > 1 or id in self._rows), None)
        if known is not None:
            raise UserError(
                f"an example with id {known!r} is in the bank already; ids are unique: remove it "
                "first"
            )
        return counts

    def _with_ids(self, examples: Sequence[Example]) -> list[Example]:
        counts = self._check_ids(examples)
        with_ids = []
        for example in examples:
            if not example.id:
                id = f"bank-{self.next_id}"
                while id in self._rows or id in counts:
                    self.next_id += 1
                    id = f"bank-{self.next_id}"
                example = replace(example, id=id)
                self.next_id += 1
            with_ids.append(example)
        return with_ids

    def remove(self, ids: Iterable[str]) -> None:
        """Remove examples by id.

        The memory of their vectors is freed once more than half of the rows are removed.
        """
        ids = list(dict.fromkeys(ids))
        with self._changing:
            unknown = [id for id in ids if id not in self._rows]
            if unknown:
                listed = ", ".join(map(repr, unknown[:3])) + (" …" if len(unknown) > 3 else "")
                raise UserError(f"no example with id {listed} in the bank; nothing was removed")
            live = self.snapshot.live.copy()
            for id in ids:
                live[self._rows.pop(id)] = False
            snapshot = replace(self.snapshot, live=live)
            if 2 * len(self._rows) < len(live):
                self._room = snapshot.live_vectors
                snapshot = Snapshot(list(snapshot), self._room, np.ones(len(self._rows), bool))
                self._rows = {example.id: row for row, example in enumerate(snapshot.examples)}
            self.snapshot = snapshot
