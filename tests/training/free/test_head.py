"""The label head: maps worked out by hand, and planted labels that cosines do not see."""

import numpy as np
import pytest
from planted_rows import planted

from ceil_jax.training.free.choice import nearest
from ceil_jax.training.free.head import LabelHead, fit_label_head
from ceil_jax.training.free.rows import (
    Cosine,
    Observations,
    example_vectors,
    features,
    query_vectors,
)


def test_dot_product_is_probability_and_half_a_cosine():
    # logits log 3 and 0: P(bad) = 3/4, P(good) = 1/4
    head = LabelHead(
        ("bad", "good"), np.zeros((2, 2), np.float32), np.log([3, 1]).astype(np.float32)
    )
    query = query_vectors(head, Observations(["q"], np.array([[1.0, 0.0]])))
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [1.0, 0.0]])
    rows = Observations([*"abcd"], vectors, outputs=["bad", "bad", "good", "never seen"])
    examples = example_vectors(head, rows)
    assert (query @ examples.T)[0] == pytest.approx([0.75 + 0.5, 0.75, 0.25 + 0.3, 0.5])
    # all of one length, an unseen label included, so that cosines rank alike
    assert (examples**2).sum(axis=1) == pytest.approx(4 * [1.5])


def test_head_finds_labels_that_cosines_do_not_see():
    bank = planted(300, 0)
    queries = planted(60, 1)
    head = fit_label_head(bank)

    def right(method):
        chosen = nearest(method, bank, queries, 4)
        rows = zip(chosen, queries.outputs, strict=True)
        return np.mean([bank.outputs[place] == label for row, label in rows for place in row])

    assert right(Cosine()) < 0.65
    assert right(head) > 0.9
    answered = np.mean(
        [a == b for a, b in zip(head.classify(queries), queries.outputs, strict=True)]
    )
    assert answered > 0.9


def test_pairs_are_compared():
    u = np.array([[0.6, 0.8]])
    v = np.array([[1.0, 0.0]])
    seen = features(Observations(["u v"], u, np.stack([u, v], axis=1)))
    assert seen == pytest.approx(np.array([[0.6, 0.8, 1, 0, 0.4, 0.8, 0.6, 0]]))


def test_of_one_label_that_is_certain():
    rows = Observations([*"abc"], np.eye(3), outputs=["good"] * 3)
    assert fit_label_head(rows).classify(rows) == ["good"] * 3


def test_a_label_of_one_example_is_learnt():
    rows = planted(30, 0)
    head = fit_label_head(rows._replace(outputs=["rare", *rows.outputs[1:]]))
    assert head.labels == ("bad", "good", "rare")
