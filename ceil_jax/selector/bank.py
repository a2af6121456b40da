"""A live bank: examples and their vectors, added and removed while others read.

Readers take a `View`, which never changes; a writer makes the next view and puts it in place of the old one.
Vectors lie in blocks that are never written to again, so that a memory-mapped bank of any size can grow.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.selector.filters import asks_the_same, check_filter, field_reader, passes_filter
from ceil_jax.selector.settings import Request
from ceil_jax.tasks.example import Example

QUERIES_AT_ONCE = 64
"""The number of queries that are scored against the bank in one matrix product."""

FIRST_SORTED = 4
"""The search sorts the best 4 n first: mostly, n of them pass the filter and repeat no text."""


class Shortlist(NamedTuple):
    """The examples among which to choose for one query."""

    examples: list[Example]
    """n examples, the nearest first."""
    vectors: np.ndarray
    """Their unit vectors, float32 [n, D]."""
    cosines: np.ndarray
    """Their cosines with the query, float32 [n]."""
    excluded: int
    """The number of nearer ones that were left out because they ask the query's own question."""


@dataclass(frozen=True)
class View:
    """The bank at one moment. Rows are numbered through all blocks; a removed example's row stays, but not live."""

    examples: Sequence[Example]
    """Shared with later views, which append to it: rows beyond `live` are not this view's."""
    blocks: tuple[np.ndarray, ...]
    """float32 [n, D] each, unit rows, larger blocks first."""
    live: np.ndarray
    """bool [N]"""

    def __iter__(self) -> Iterator[Example]:
        """Iterate over the live examples, in the order they were added."""
        return (self.examples[row] for row in np.flatnonzero(self.live).tolist())

    @property
    def dim(self) -> int | None:
        """The length of the vectors; None while there never was an example."""
        return self.blocks[0].shape[1] if self.blocks else None

    def cosines(self, queries: np.ndarray) -> np.ndarray:
        """Return the cosine of every query with every row, float32 [Q, N]; −inf for rows that are not live.

        This is one pass over memory, in numpy and in place: moving the bank to a device for one query costs more
        than reading it, and a bank that grows would compile again and again.

        Args:
            queries: unit rows, float32 [Q, D].
        """
        scores = np.empty((len(queries), len(self.live)), np.float32)
        start = 0
        for block in self.blocks:
            np.matmul(queries, block.T, out=scores[:, start : start + len(block)])
            start += len(block)
        scores[:, ~self.live] = -np.inf
        return scores

    def vectors(self, rows: Sequence[int]) -> np.ndarray:
        """Return the vectors of some rows, float32 [n, D]."""
        starts = np.cumsum([0, *map(len, self.blocks)])
        wanted, found = np.asarray(rows, np.intp), np.empty((len(rows), self.dim or 0), np.float32)
        for block, start in zip(self.blocks, starts, strict=False):
            here = (wanted >= start) & (wanted < start + len(block))
            found[here] = block[wanted[here] - start]
        return found

    @cached_property
    def _values(self) -> dict[str, set[str | None]]:
        return {}

    def values(self, name: str, read: Callable[[Example], str | None]) -> set[str | None]:
        """Return the different values of a field of the live examples; they are read once."""
        if name not in self._values:
            self._values[name] = {read(example) for example in self}
        return self._values[name]

    def shortlists(
        self, queries: Sequence[Example], vectors: np.ndarray, request: Request
    ) -> Iterator[Shortlist]:
        """Yield the nearest examples of each query that may be chosen.

        Args:
            queries: Q queries.
            vectors: their unit vectors, float32 [Q, D].
            request: what is asked for.

        Raises:
            UserError: balance over more values than the shortlist is long; a filter or balance on a field that no
                example has; a filter on a value that none has.
        """
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            block = slice(start, start + QUERIES_AT_ONCE)
            for query, cosines in zip(queries[block], self.cosines(vectors[block]), strict=True):
                yield self._shortlist(query, cosines, request)

    def _shortlist(self, query: Example, cosines: np.ndarray, request: Request) -> Shortlist:
        """The nearest examples that pass, no two with equal input and output; no further is looked than needed."""
        passes, own = passes_filter(request), asks_the_same(query, request.template)
        group, most = field_reader(request.balance or "output", request.output_key), request.size
        if request.balance is not None:
            values = self.values(request.balance, group)
            if len(values) > request.size:
                raise UserError(
                    f"balance={request.balance!r}: the bank has {len(values)} different values, more than the "
                    f"shortlist of {request.size}; balance is for fields with few values"
                )
            most = -(-request.size // max(len(values), 1))
        rows: list[int] = []
        texts: set[tuple[str, str]] = set()
        taken: Counter[str | None] = Counter()
        excluded = 0
        for row in descending(cosines, FIRST_SORTED * request.size):
            example = self.examples[row]
            text = (example.input, example.output)
            if taken[group(example)] >= most or text in texts or not passes(example):
                continue
            if not request.own_answer and own(example):
                excluded += 1
                continue
            rows.append(row)
            texts.add(text)
            taken[group(example)] += 1
            if len(rows) == request.size:
                break
        if not rows and not excluded:
            check_filter(request, self)
        return Shortlist([self.examples[row] for row in rows], self.vectors(rows), cosines[rows], excluded)

    def compacted(self) -> View:
        """Return a view of the live rows alone, in one block."""
        kept = list(self.live_blocks())
        blocks = (np.concatenate(kept),) if kept else ()
        return View(list(self), blocks, np.ones(int(self.live.sum()), bool))

    def live_blocks(self) -> Iterator[np.ndarray]:
        """Iterate over the live rows of each block."""
        start = 0
        for block in self.blocks:
            live = self.live[start : start + len(block)]
            yield block if live.all() else block[live]
            start += len(block)


_CHANGING = threading.Lock()
"""Held by every change of any bank. Changes are short, because vectors are computed before."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_CHANGING.acquire, after_in_parent=_CHANGING.release, after_in_child=_CHANGING.release
    )


class Bank:
    """The current view, and the changes of it.

    A process may fork at any time, also while another thread adds: the fork waits for the change to end, so that
    the child has a whole bank and a free lock.

    Args:
        examples: examples with distinct ids.
        vectors: float32 [N, D], unit rows; may be memory-mapped, is never written to.
        next_id: the number that the next example without an id gets.
    """

    def __init__(self, examples: list[Example], vectors: np.ndarray, next_id: int = 0) -> None:
        self._rows = {example.id: row for row, example in enumerate(examples)}
        blocks = (vectors,) if len(vectors) else ()
        self.view = View(examples, blocks, np.ones(len(examples), bool))
        self.next_id = next_id

    def __len__(self) -> int:
        return len(self._rows)

    def __getstate__(self) -> tuple[list[Example], np.ndarray, int]:
        view, next_id = self.view, self.next_id
        compact = view.compacted()
        vectors = compact.blocks[0] if compact.blocks else np.zeros((0, view.dim or 0), np.float32)
        return list(compact.examples), vectors, next_id

    def __setstate__(self, state: tuple[list[Example], np.ndarray, int]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __copy__(self) -> Bank:
        """A bank that changes apart from this one; vectors are never written to, and shared."""
        other = type(self)([], np.zeros((0, 0), np.float32))
        with _CHANGING:
            live = self.view.live
            other._rows, other.next_id = dict(self._rows), self.next_id
            other.view = replace(self.view, examples=list(self.view.examples[: len(live)]))
        return other

    def add(self, examples: Sequence[Example], vectors: np.ndarray) -> list[str]:
        """Append examples and return their ids, made up here for examples whose id is empty.

        Blocks of like size are merged, so that there are few and each vector is copied O(log N) times.

        Args:
            examples: n examples.
            vectors: their unit vectors, float32 [n, D].

        Raises:
            UserError: an id that is in the bank already or given twice; nothing is added.
        """
        if not examples:
            return []
        with _CHANGING:
            view = self.view
            if view.dim not in (None, vectors.shape[1]):
                raise UserError(f"vectors of {vectors.shape[1]} numbers for a bank of vectors of {view.dim}")
            named, next_id = self._with_ids(examples)
            blocks, last = list(view.blocks), vectors
            while blocks and len(blocks[-1]) <= len(last):
                last = np.concatenate([blocks.pop(), last])
            start = len(view.live)
            assert isinstance(view.examples, list)
            view.examples.extend(named)
            self._rows |= {example.id: start + i for i, example in enumerate(named)}
            live = np.concatenate([view.live, np.ones(len(named), bool)])
            self.view = View(view.examples, (*blocks, last), live)
            self.next_id = next_id
            return [example.id for example in named]

    def _with_ids(self, examples: Sequence[Example]) -> tuple[list[Example], int]:
        given = [example.id for example in examples if example.id]
        known = next((id for id in given if id in self._rows), None)
        known = known or next((id for id, count in Counter(given).items() if count > 1), None)
        if known is not None:
            raise UserError(f"an example with id {known!r} is there already; ids are unique: remove it first")
        named, number, reserved = [], self.next_id, set(given)
        for example in examples:
            if not example.id:
                while (id := f"bank-{number}") in self._rows or id in reserved:
                    number += 1
                example = replace(example, id=id)
                number += 1
            named.append(example)
        return named, number

    def remove(self, ids: Iterable[str]) -> None:
        """Remove examples; the memory of their vectors is freed once more than half of the rows are gone.

        Args:
            ids: the ids of the examples.

        Raises:
            UserError: an id that is not in the bank; nothing is removed.
        """
        ids = list(dict.fromkeys(ids))
        with _CHANGING:
            unknown = [id for id in ids if id not in self._rows]
            if unknown:
                shown = ", ".join(map(repr, unknown[:3])) + (" …" if len(unknown) > 3 else "")
                raise UserError(f"no example with id {shown} in the bank; nothing was removed")
            live = self.view.live.copy()
            for id in ids:
                live[self._rows.pop(id)] = False
            view = replace(self.view, live=live)
            if 2 * len(self._rows) < len(live):
                view = view.compacted()
                self._rows = {example.id: row for row, example in enumerate(view.examples)}
            self.view = view


def descending(scores: np.ndarray, first: int) -> Iterator[int]:
    """Iterate over the indices of the scores above −inf, highest first, ties by index.

    Only as much is sorted as is asked for.

    Args:
        scores: float32 [N].
        first: how many to sort first.
    """
    done, size, n = 0, max(first, 1), len(scores)
    while done < n:
        # all at or above the size-th highest score: a cut through ties would lose their order
        lowest = np.partition(scores, n - size)[n - size] if size < n else -np.inf
        top = np.flatnonzero((scores >= lowest) & (scores > -np.inf))
        top = top[np.argsort(-scores[top], kind="stable")]
        yield from top[done:].tolist()
        if size >= n:
            return
        done, size = len(top), 4 * max(size, len(top))
