"""experiments/layers_near.py: what near examples share with the gold output."""

import layers_near
import numpy as np
import pytest

from ceil_jax.tasks.example import Example


def test_labels_are_shared_whole_and_texts_in_part():
    labels = ("good", "bad")
    query = Example("q", "fun", "good", choices=labels)
    assert [
        layers_near.shared(query, Example(str(i), "", label)) for i, label in enumerate(labels)
    ] == [1, 0]
    query = Example("q", "list files", "ls -l dir")
    assert layers_near.shared(query, Example("a", "", "ls -a")) == pytest.approx(2 / 5)


def test_other_layers_are_compared_with_the_last():
    rng = np.random.default_rng(0)
    last = rng.random((50, layers_near.SHOTS)) / 2
    layers = [last + 0.1] * (layers_near.LAYERS - 1) + [last]
    mean, best = layers_near.table({"nl2bash": layers}).rows
    assert mean[0] == "nl2bash, mean"
    assert mean[1].value == pytest.approx(100 * last.mean())
    assert [cell.value for cell in (*mean[2:], *best[2:])] == pytest.approx([10] * 12)
