"""The best of given scores: highest first, equal ones by position."""

import numpy as np
import pytest

from ceil_jax.retrieval.ranking import best_first, descending


@pytest.mark.parametrize("k", [0, 1, 3, 7, 12, 20])
def test_the_best_are_those_of_a_stable_sort(k):
    # many equal scores
    scores = np.random.default_rng(k).integers(0, 4, size=12).astype(np.float32)
    expected = sorted(range(12), key=lambda position: (-scores[position], position))[:k]
    assert best_first(scores, k).tolist() == expected


def test_descending_is_a_stable_sort():
    rng = np.random.default_rng(0)
    for n, first in ((0, 4), (5, 8), (300, 1), (300, 7), (300, 300)):
        scores = rng.integers(0, 9, n).astype(np.float32)
        scores[rng.random(n) < 0.2] = -np.inf
        expected = [i for i in np.argsort(-scores, kind="stable") if scores[i] > -np.inf]
        assert list(descending(scores, first)) == expected
