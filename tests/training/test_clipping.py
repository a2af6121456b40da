"""Gradients of a training step, clipped at a global norm."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ceil_jax.training.config import EPRConfig
from ceil_jax.training.loop import fit

GRADIENTS = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, -5.0], [0.6, 0.0]], np.float32)


def weights(folder, clip):
    """The averaged weights: those after the fourth of four steps with these gradients."""
    found = fit(
        folder,
        {"w": jnp.zeros(2)},
        lambda params, batch, key: (jnp.zeros(()), {"w": jnp.asarray(batch)}),
        lambda step, rows: GRADIENTS[step],
        lambda params: np.full(3, float(np.any(params["w"]))),
        instances=4,
        config=EPRConfig(epochs=1, batch_size=1, learning_rate=0.1, clip=clip),
        seed=0,
        what="training",
    )
    return found.params["w"]


@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_gradient_longer_than_the_norm_is_shortened_to_it(tmp_path, clip):
    # lengths 5, 0.5, 5, 0.6
    divisors = [1, 1, 1, 1] if clip is None else [5, 1, 5, 1]
    # warm-up of one step, then down to 0: rates 0, 0.1, 0.2/3, 0.1/3
    rates = jnp.array([0, 0.1, 0.1 * 2 / 3, 0.1 / 3])
    adam = optax.adam(lambda step: rates[step])
    expected, state = jnp.zeros(2), adam.init(jnp.zeros(2))
    for gradient, divisor in zip(GRADIENTS, divisors, strict=True):
        change, state = adam.update(jnp.asarray(gradient / divisor), state)
        expected = expected + change
    np.testing.assert_allclose(weights(tmp_path, clip), expected, rtol=1e-4)
