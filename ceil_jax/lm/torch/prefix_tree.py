"""Token rows merged where they begin alike, so that each token they share is read once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Trie:
    """The distinct beginnings of some rows, one token each, numbered depth first.

    A token's ancestors, what it may look back at, come before it, and the tokens below it directly behind it.
    """

    def __init__(self, rows: Sequence[list[int]]):
        order = sorted(range(len(rows)), key=rows.__getitem__)
        self.paths: list[np.ndarray] = [np.zeros(0, np.int64)] * len(rows)
        """For each row, the numbers of its tokens, ascending."""
        ids: list[int] = []
        depths: list[int] = []
        owners: list[int] = []
        before: list[int] = []
        path = np.zeros(0, np.int64)
        for row in order:
            tokens = rows[row]
            shared = common_prefix(before, tokens)
            path = np.concatenate([path[:shared], np.arange(len(ids), len(ids) + len(tokens) - shared)])
            ids += tokens[shared:]
            depths += range(shared, len(tokens))
            owners += [row] * (len(tokens) - shared)
            self.paths[row] = path
            before = tokens
        self.ids = np.array(ids, np.int64)
        self.depths = np.array(depths, np.int64)
        self._owners = np.array(owners, np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def path(self, token: int) -> np.ndarray:
        """The numbers of a token's ancestors, the token itself left out; of all rows' end, none."""
        if token == len(self):
            return np.zeros(0, np.int64)
        return self.paths[self._owners[token]][: self.depths[token]]

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int, np.ndarray]]:
        """The tokens start … stop − 1 as runs (first, end, path) that go down one row's path, which holds the
        run and all its tokens' ancestors."""
        owners = self._owners[start:stop]
        edges = np.flatnonzero(np.diff(owners)) + 1 + start
        for first, end in zip([start, *edges], [*edges, stop], strict=True):
            yield int(first), int(end), self.paths[self._owners[first]]


class Pass(NamedTuple):
    """Tokens start … stop − 1 of a trie, read at once, behind the keys of the first one's ancestors."""

    trie: Trie
    start: int
    stop: int

    def column(self, tokens: np.ndarray) -> np.ndarray:
        """Where the keys of tokens stand: the first one's ancestors by depth, then the pass's own."""
        carried = int(self.trie.depths[self.start])
        return np.where(tokens < self.start, self.trie.depths[tokens], carried + tokens - self.start)

    def kept(self) -> np.ndarray:
        """The columns that the next pass stands behind: the path to its first token."""
        return self.column(self.trie.path(self.stop))

    def blocks(self, size: int) -> list[Block]:
        """The pass's tokens, `size` at a time."""
        return [
            Block.of(self, first, min(first + size, self.stop))
            for first in range(self.start, self.stop, size)
        ]


class Block(NamedTuple):
    """Queries of neighbouring tokens and the keys that any of them sees."""

    queries: slice
    """Within the pass."""
    columns: np.ndarray
    """int [n]: of the keys, as `Pass.column` counts."""
    visible: np.ndarray
    """bool [queries, n]."""
    distance: np.ndarray
    """int [queries, n]: how many tokens back a key lies, where it is visible."""

    @classmethod
    def of(cls, read: Pass, first: int, end: int) -> Block:
        """Keys: the path to the first query, and the queries' own.

        What else a query sees lies in front of the block, is an ancestor of the first query too, and so is
        a beginning of the path.
        """
        trie = read.trie
        path = trie.path(first)
        tokens = np.concatenate([path, np.arange(first, end)])
        visible = np.zeros((end - first, len(tokens)), bool)
        for start, stop, whole in trie.runs(first, end):
            queries = np.arange(start, stop)
            before, own = np.searchsorted(whole, [first, stop])
            visible[start - first : stop - first, :before] = True
            seen = whole[before:own]
            visible[np.ix_(queries - first, len(path) + seen - first)] = seen <= queries[:, None]
        distance = trie.depths[first:end, None] - trie.depths[tokens]
        return cls(slice(first - read.start, end - read.start), read.column(tokens), visible, distance)

    def within(self, window: int | None) -> Block:
        """The block where a token sees the last `window` tokens only, itself included; keys that no query
        sees left out."""
        if window is None or self.distance[self.visible].max() < window:
            return self
        visible = self.visible & (self.distance < window)
        used = visible.any(axis=0)
        return Block(self.queries, self.columns[used], visible[:, used], self.distance[:, used])


def common_prefix(first: list[int], second: list[int]) -> int:
    """How many leading tokens two rows share."""
    limit = min(len(first), len(second))
    if first[:limit] == second[:limit]:
        return limit
    return next(place for place in range(limit) if first[place] != second[place])


def shares(rows: Sequence[list[int]], workers: int, least: int) -> list[list[int]]:
    """The rows in parts of about equally many distinct tokens, one for each worker.

    Rows are cut apart, in sorted order, where neighbours share the fewest tokens near an even cut: those are
    read twice. Fewer parts where one would have less than `least` tokens, or would read more than a tenth of
    its tokens for the second time.
    """
    if not rows:
        return []
    order = sorted(range(len(rows)), key=rows.__getitem__)
    shared = [0, *(common_prefix(rows[a], rows[b]) for a, b in itertools.pairwise(order))]
    ends = np.cumsum([len(rows[row]) - n for row, n in zip(order, shared, strict=True)])
    total = int(ends[-1])
    cuts = [0]
    for part in range(1, min(workers, total // max(least, 1))):
        # rows that end within a twentieth of a part of the even cut
        even, slack = total * part / workers, total / workers / 20
        near = np.flatnonzero(np.abs(ends[:-1] - even) <= slack) + 1
        if not len(near):
            near = np.array([np.abs(ends - even).argmin() + 1])
        cut = min((int(row) for row in near if row < len(order)), key=shared.__getitem__, default=0)
        if cut > cuts[-1] and shared[cut] <= total / workers / 10:
            cuts.append(cut)
    return [order[a:b] for a, b in itertools.pairwise([*cuts, len(order)])]
