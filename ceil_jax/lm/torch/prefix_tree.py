"""A prefix tree (trie) of token rows, so that shared prefixes are read once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np


class Trie:
    """A trie of some rows of tokens. Each distinct prefix is one token of the trie: the prefix's
    last token.

    Tokens are numbered depth first.

    A token's ancestors, to which it may attend, come before it; its descendants follow directly
    after it.
    """

    def __init__(self, rows: Sequence[list[int]]):
        self.paths: list[np.ndarray] = [np.zeros(0, np.int64)] * len(rows)
        """For each row, int [its length]: the numbers of its tokens in the trie, ascending."""
        # for each token of the trie: its id, its position in its rows, and the first of its rows
        ids: list[int] = []
        depths: list[int] = []
        owners: list[int] = []
        # among the sorted rows, a row has its longest common prefix with the row before it
        row_before: list[int] = []
        path = np.zeros(0, np.int64)
        for number in sorted(range(len(rows)), key=rows.__getitem__):
            row = rows[number]
            shared = common_prefix(row_before, row)
            added = len(row) - shared
            path = np.concatenate([path[:shared], np.arange(len(ids), len(ids) + added)])
            ids += row[shared:]
            depths += range(shared, len(row))
            owners += [number] * added
            self.paths[number] = path
            row_before = row
        self.ids = np.array(ids, np.int64)
        self.depths = np.array(depths, np.int64)
        self._owners = np.array(owners, np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def path(self, token: int) -> np.ndarray:
        """Return the numbers of a token's ancestors, without the token itself.

        Empty for `len(self)`, the end.
        """
        if token == len(self):
            return np.zeros(0, np.int64)
        return self.paths[self._owners[token]][: self.depths[token]]

    def keys(
        self, first: int, end: int, window: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens to which some tokens attend, and a mask of which attends to which.

        The attending tokens are first … end − 1.

        The tokens, int [n], ascending, are the ancestors of `first` and the tokens from it to
        `end`. (An ancestor before `first` of any of these is also an ancestor of `first`.) The mask
        is bool [end − first, n]. With a window, a token attends only to that many of the last
        tokens of its row, itself included.
        """
        path = self.path(first)
        owners = self._owners[first:end]
        # the columns of `visible`: the ancestors of `first`, then the tokens first … end − 1
        tokens = np.concatenate([path, np.arange(first, end)])
        visible = np.zeros((end - first, len(tokens)), bool)
        # consecutive tokens of one owner lie on the path of that row
        changes = np.flatnonzero(np.diff(owners)) + 1
        for start, stop in pairwise([0, *changes, end - first]):
            row_path = self.paths[owners[start]]
            before, beyond = np.searchsorted(row_path, [first, end])
            # the path's tokens before `first` are the first ancestors of `first`
            visible[start:stop, :before] = True
            # each token attends to those of the path in the range, up to itself
            in_range = row_path[before:beyond]
            attending = np.arange(first + start, first + stop)
            columns = len(path) + in_range - first
            visible[start:stop, columns] = in_range <= attending[:, None]
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
