"""The trie of token rows and the passes that read it, against sets of beginnings."""

import numpy as np
import pytest

from ceil_jax.lm.torch.prefix_tree import Pass, Trie

ROWS = [[1, 2, 3, 4, 5], [1, 2, 9], [7], [1, 2, 3, 4, 6, 6], [1, 2, 3, 4, 5], [1, 2]]


def test_each_beginning_is_one_token():
    trie = Trie(ROWS)
    assert len(trie) == len({tuple(row[:end]) for row in ROWS for end in range(1, len(row) + 1)})
    for row, path in zip(ROWS, trie.paths, strict=True):
        assert trie.ids[path].tolist() == row
        assert trie.depths[path].tolist() == list(range(len(row)))
    assert trie.paths[5].tolist() == trie.paths[0][:2].tolist()


@pytest.mark.parametrize("budget", [1, 2, 3, 100])
@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_a_token_sees_its_ancestors_within_the_window(budget, size, window):
    trie = Trie(ROWS)
    held: list[int] = []  # which token each carried key belongs to
    for start in range(0, len(trie), budget):
        read = Pass(trie, start, min(start + budget, len(trie)))
        assert len(held) == trie.depths[start]
        keys = np.array([*held, *range(start, read.stop)])
        seen = {}
        for block in read.blocks(size):
            block = block.within(window)
            for token, visible in zip(range(start, read.stop)[block.queries], block.visible, strict=True):
                seen[token] = sorted(keys[block.columns[visible]].tolist())
        for token in range(start, read.stop):
            whole = [*trie.path(token).tolist(), token]
            assert seen[token] == (whole if window is None else whole[-window:])
        held = keys[read.kept()].tolist()
    assert held == []
