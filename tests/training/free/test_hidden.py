"""The label head on hidden states: of which only one layer shows a planted label."""

import numpy as np
import pytest

from ceil_jax.training.free.head import fit_label_head
from ceil_jax.training.free.hidden import fit_hidden_head, fit_layer
from ceil_jax.training.free.rows import Observations

LABELS = ("bad", "fine", "good")


def planted(count, seed, layer, scale=1.0):
    """Texts whose hidden states say the label in one of two layers, in a dimension that is small
    beside the others."""
    generator = np.random.default_rng(seed)
    y = generator.integers(3, size=count)
    states = 1000 * generator.normal(1, size=(count, 2, 6))
    states[:, layer, 2] = scale * (y + 5 + 0.1 * generator.normal(size=count))
    return Observations(
        [str(i) for i in range(count)],
        np.ones((count, 1), np.float32),
        outputs=[LABELS[label] for label in y],
        states=states.astype(np.float32),
    )


@pytest.mark.parametrize("layer", [0, 1])
def test_the_layer_that_shows_the_label_is_read(layer):
    bank = planted(240, 0, layer)
    queries = planted(60, 1, layer)
    head = fit_hidden_head(bank)
    assert np.mean(np.array(head.classify(queries)) == np.array(queries.outputs)) > 0.9
    weights = head.weights.reshape(2, 6, 3)
    assert np.any(weights[layer])
    assert not np.any(weights[1 - layer])


def test_the_size_of_a_dimension_does_not_matter():
    """Which the plain head, on vectors of one length, need not see to."""
    for scale in (1e-3, 1e3):
        bank = planted(240, 0, 0, scale)
        queries = planted(60, 1, 0, scale)
        right = np.array(fit_layer(bank, 0, 10.0).classify(queries)) == np.array(queries.outputs)
        assert right.mean() > 0.9


def test_a_head_like_another_has_its_labels():
    bank = planted(60, 0, 0)
    head = fit_hidden_head(bank)
    some = bank.take(np.flatnonzero(np.array(bank.outputs) != "fine"))
    other = fit_hidden_head(some, like=head)
    assert other.labels == head.labels == LABELS
    assert (other.probabilities(bank)[:, 1] == 0).all()


@pytest.mark.parametrize("count", [1, 4])
def test_a_bank_too_small_to_hold_rows_out_is_fitted(count):
    bank = planted(count, 0, 0)
    assert set(fit_hidden_head(bank).labels) == set(bank.outputs)


def test_without_hidden_states_vectors_are_read():
    rows = planted(60, 0, 0)._replace(states=None)
    assert fit_label_head(rows).weights.shape == (1, 3)
