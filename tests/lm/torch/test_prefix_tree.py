"""The trie of token rows, against sets of beginnings."""

import numpy as np
import pytest

from ceil_jax.lm.torch.prefix_tree import Trie

ROWS = [[1, 2, 3, 4, 5], [1, 2, 9], [7], [1, 2, 3, 4, 6, 6], [1, 2, 3, 4, 5], [1, 2]]


def test_each_beginning_is_one_token():
    trie = Trie(ROWS)
    assert len(trie) == len({tuple(row[:end]) for row in ROWS for end in range(1, len(row) + 1)})
    for row, path in zip(ROWS, trie.paths, strict=True):
        assert trie.ids[path].tolist() == row
        assert trie.depths[path].tolist() == list(range(len(row)))
    assert trie.paths[5].tolist() == trie.paths[0][:2].tolist()


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_a_token_sees_its_ancestors_within_the_window(size, window):
    trie = Trie(ROWS)
    for first in range(0, len(trie), size):
        end = min(first + size, len(trie))
        tokens, visible = trie.keys(first, end, window)
        assert visible.any(axis=0).all()
        assert (np.diff(tokens) > 0).all()
        for token, seen in zip(range(first, end), visible, strict=True):
            whole = [*trie.path(token).tolist(), token]
            assert tokens[seen].tolist() == (whole if window is None else whole[-window:])
