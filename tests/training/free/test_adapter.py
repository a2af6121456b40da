"""Adapters on vectors, trained on outputs."""

import numpy as np
import pytest
from planted_rows import planted

from ceil_jax.training.free.adapter import Adapter
from ceil_jax.training.free.choice import nearest
from ceil_jax.training.free.fitting import AdapterConfig, fit_adapter
from ceil_jax.training.free.output_similarity import OutputComparison
from ceil_jax.training.free.rows import Cosine, Observed

LABELS = ("bad", "good")
QUICK = AdapterConfig(width=4, epochs=20, batch_size=64, at_once=256, learning_rate=0.03)
BANK = planted(400, 0)


def right(method, queries=None):
    queries = planted(60, 1) if queries is None else queries
    rows = zip(nearest(method, BANK, queries, 4), queries.outputs, strict=True)
    return np.mean([BANK.outputs[place] == label for row, label in rows for place in row])


def test_output_similarities_by_hand():
    rows = Observed(
        [*"ab"],
        np.eye(2),
        outputs=["find . -name x", "find . -type d"],
        output_vectors=np.array([[1.0, 0.0], [0.6, 0.8]]),
        structures=[frozenset("ab"), frozenset("bcd")],
    )
    both = np.array([0]), np.array([0, 1])
    assert OutputComparison("label", rows)(*both)[0] == pytest.approx([1, 0])
    assert OutputComparison("vectors", rows)(*both)[0] == pytest.approx([1, 0.6])
    # {find . - name x} and {find . - type d} share three of five
    assert OutputComparison("tokens", rows)(*both)[0] == pytest.approx([1, 2 * 3 / 10])
    assert OutputComparison("structures", rows)(*both)[0] == pytest.approx([1, 2 * 1 / 5])


def test_maps_by_hand():
    adapter = Adapter(
        LABELS,
        np.array([[3.0], [0]]),
        np.zeros(1),
        np.array([[0.0], [0], [2], [-2], [0]]),
        np.zeros(1),
        0.25,
        1,
    )
    query = adapter.query(Observed(["q"], np.array([[0.6, 0.8]])))
    examples = adapter.examples(Observed([*"ab"], np.array([[0.6, 0.8]] * 2), outputs=["bad", "good"]))
    assert (query @ examples.T)[0] == pytest.approx([1 + 0.25, -1 + 0.25])


def test_it_finds_labels_that_cosines_do_not_see():
    assert right(Cosine()) < 0.65
    assert right(fit_adapter(BANK, "label", labels=LABELS, config=QUICK)) > 0.9


def test_a_query_is_not_its_own_example():
    # all outputs differ: a query that were shown itself would learn that the nearest example is the best
    rows = planted(60, 0)._replace(outputs=[str(i) for i in range(60)])
    config = AdapterConfig(width=4, batch_size=16, learning_rate=0.03)
    assert fit_adapter(rows, "label", labels=("0",), config=config).scale < 20
