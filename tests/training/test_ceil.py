"""The objective of CEIL: log-probabilities of sets, and how they change."""

import jax
import jax.numpy as jnp
import numpy as np

from ceil_jax.dpp.distribution import subset_log_det
from ceil_jax.dpp.kernel import conditional_kernel, relevance, similarity_from_features
from ceil_jax.training.ceil import set_log_probs

TRADE_OFF = 0.1
RNG = np.random.default_rng(0)


def test_set_log_probs_are_log_dets_of_the_conditional_kernel_and_empty_places_do_not_count():
    # the second query has three neighbours; the vector at its empty place is nearer to it than any
    # of them
    queries = jnp.asarray(RNG.normal(size=(2, 6)), jnp.float32)
    examples = jnp.asarray(RNG.normal(size=(2, 5, 6)), jnp.float32).at[1, 3:].set(queries[1])
    valid = jnp.array([[True] * 5, [True] * 3 + [False] * 2])
    subsets = jnp.array([[[0, 1, 4], [2, 3, -1]], [[0, 1, 2], [1, 2, -1]]], jnp.int32)
    ours = set_log_probs(queries, examples, subsets, None, TRADE_OFF, valid)
    for q, n in enumerate((5, 3)):
        r = relevance(queries[q], examples[q, :n])
        kernel = conditional_kernel(r, similarity_from_features(examples[q, :n]), TRADE_OFF)
        expected = [float(subset_log_det(kernel, subset)) for subset in subsets[q]]
        np.testing.assert_allclose(ours[q], expected, rtol=1e-4)


def test_gradients_with_empty_places_are_finite():
    queries = jnp.asarray(RNG.normal(size=(1, 6)), jnp.float32)
    examples = jnp.asarray(RNG.normal(size=(1, 4, 6)), jnp.float32)
    valid = jnp.array([[True, True, False, False]])
    subsets = jnp.array([[[0, 1], [0, -1], [-1, -1]]], jnp.int32)

    def total(queries, examples):
        return set_log_probs(queries, examples, subsets, None, TRADE_OFF, valid).sum()

    for gradient in jax.grad(total, argnums=(0, 1))(queries, examples):
        assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0
