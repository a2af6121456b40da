"""A prefix tree (trie) of token rows: what rows have in common at their beginning is read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Trie:
    """The distinct prefixes of some rows. Each prefix is one token of the trie, numbered depth first.

    A token's ancestors, which it may attend to, come before it; its descendants follow directly behind it.

    Args:
        rows: token ids.
    """

    def __init__(self, rows: Sequence[list[int]]):
        order = sorted(range(len(rows)), key=rows.__getitem__)
        self.paths: list[np.ndarray] = [np.zeros(0, np.int64)] * len(rows)
        """For each row, int [its length]: the numbers of its tokens in the trie, ascending."""
        ids: list[int] = []
        depths: list[int] = []
        owners: list[int] = []
        before: list[int] = []
        path = np.zeros(0, np.int64)
        for row in order:
            tokens = rows[row]
            shared = _common_prefix(before, tokens)
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
        """Return the numbers of a token's ancestors, without the token itself; none for `len(self)`, the end."""
        if token == len(self):
            return np.zeros(0, np.int64)
        return self.paths[self._owners[token]][: self.depths[token]]

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield the tokens start … stop − 1 as runs (first, end, path).

        Each run goes down the path of one row, which holds the tokens first … end − 1 and all their ancestors.
        """
        owners = self._owners[start:stop]
        edges = np.flatnonzero(np.diff(owners)) + 1 + start
        for first, end in zip([start, *edges], [*edges, stop], strict=True):
            yield int(first), int(end), self.paths[self._owners[first]]


class Pass(NamedTuple):
    """The tokens start … stop − 1 of a trie, read at once behind the keys of the first one's ancestors."""

    trie: Trie
    start: int
    stop: int

    def column(self, tokens: np.ndarray) -> np.ndarray:
        """Return int [n], the columns of the tokens' keys: first the carried ancestors by depth, then the pass's
        own tokens."""
        carried = int(self.trie.depths[self.start])
        return np.where(tokens < self.start, self.trie.depths[tokens], carried + tokens - self.start)

    def kept(self) -> np.ndarray:
        """Return the columns that the next pass needs: the path to its first token."""
        return self.column(self.trie.path(self.stop))

    def blocks(self, size: int) -> list[Block]:
        """Return the tokens of the pass in blocks of `size` queries."""
        return [
            Block.of(self, first, min(first + size, self.stop))
            for first in range(self.start, self.stop, size)
        ]


class Block(NamedTuple):
    """The queries of neighbouring tokens, and the keys that at least one of them sees."""

    queries: slice
    """The places of the queries within the pass."""
    columns: np.ndarray
    """int [n]: the columns of the keys; see `Pass.column`."""
    visible: np.ndarray
    """bool [queries, n]: which query sees which key."""
    distance: np.ndarray
    """int [queries, n]: how many tokens back a visible key lies."""

    @classmethod
    def of(cls, read: Pass, first: int, end: int) -> Block:
        """Return the block of the tokens first … end − 1, with the keys of the first one's path and their own.

        These are all the keys that are seen: any other key that a query sees lies in front of the block, so it is
        an ancestor of the first query too and belongs to the path.
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
        """Return the block for a sliding window, without the keys that no query sees.

        Args:
            window: a token sees the last `window` tokens only, itself included; None for all.
        """
        if window is None or self.distance[self.visible].max() < window:
            return self
        visible = self.visible & (self.distance < window)
        used = visible.any(axis=0)
        return Block(self.queries, self.columns[used], visible[:, used], self.distance[:, used])


def _common_prefix(first: list[int], second: list[int]) -> int:
    """Return how many leading tokens two rows share."""
    limit = min(len(first), len(second))
    if first[:limit] == second[:limit]:
        return limit
    return next(place for place in range(limit) if first[place] != second[place])
