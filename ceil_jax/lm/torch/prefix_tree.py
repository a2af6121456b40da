"""A prefix tree (trie) of token rows, so that shared prefixes are read once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np


class Trie:
    """The distinct prefixes of some rows, each a token of the trie: the last token of the prefix.
    Tokens are numbered depth first.

    A token's ancestors, to which it may attend, come before it; its descendants follow directly
    after it.
    """

    def __init__(self, rows: Sequence[list[int]]):
        self.paths: list[np.ndarray] = [np.zeros(0, np.int64)] * len(rows)
        """For each row, int [its length]: the numbers of its tokens in the trie, ascending."""
        ids: list[int] = []
        depths: list[int] = []
        owners: list[int] = []
        before: list[int] = []
        path = np.zeros(0, np.int64)
        for row in sorted(range(len(rows)), key=rows.__getitem__):
            tokens = rows[row]
            shared = common_prefix(before, tokens)
            path = np.concatenate(
                [path[:shared], np.arange(len(ids), len(ids) + len(tokens) - shared)]
            )
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
        """Return the numbers of a token's ancestors, without the token itself; empty for
        `len(self)`, the end."""
        if token == len(self):
            return np.zeros(0, np.int64)
        return self.paths[self._owners[token]][: self.depths[token]]

    def keys(
        self, first: int, end: int, window: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens that at least one of the tokens first … end − 1 attends to, and a mask
        of which attends to which.

        The tokens, int [n], ascending, are the ancestors of `first` and the tokens from it to
        `end`. (An ancestor before `first` of any of these is also an ancestor of `first`.) The mask
        is bool [end − first, n]. With a window, a token attends only to that many of the last
        tokens of its row, itself included.
        """
        path = self.path(first)
        owners = self._owners[first:end]
        tokens = np.concatenate([path, np.arange(first, end)])
        visible = np.zeros((end - first, len(tokens)), bool)
        # consecutive tokens of one owner lie on its path
        for start, stop in pairwise([0, *np.flatnonzero(np.diff(owners)) + 1, end - first]):
            whole = self.paths[owners[start]]
            before, beyond = np.searchsorted(whole, [first, end])
            visible[start:stop, :before] = True
            visible_whole = whole[before:beyond]
            positions = np.arange(first + start, first + stop)
            visible[start:stop, len(path) + visible_whole - first] = (
                visible_whole <= positions[:, None]
            )
        if window is not None:
            visible &= self.depths[first:end, None] - self.depths[tokens] < window
            used = visible.any(axis=0)
            tokens = tokens[used]
            visible = visible[:, used]
        return tokens, visible


def common_prefix(first: list[int], second: list[int]) -> int:
    """Return the length of the common prefix of two rows."""
    limit = min(len(first), len(second))
    if first[:limit] == second[:limit]:
        return limit
    return next(position for position in range(limit) if first[position] != second[position])
