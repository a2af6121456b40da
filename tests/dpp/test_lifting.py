"""MAP from features lifted by `jax.vmap`: in chunks, with the same sets and the same
derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ceil_jax.dpp import lifting
from ceil_jax.dpp.greedy import greedy_map, greedy_map_from_features
from ceil_jax.dpp.kernel import conditional_kernel, similarity_from_features

Q = 11
N = 9
D = 16
K = 3
LAMBDA = 0.1


def problems(seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(Q, N, D)).astype(np.float32)
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    return jnp.asarray(features), jnp.asarray(rng.uniform(-0.4, 0, size=(Q, N)), jnp.float32)


def largest_product(function, *arguments):
    """Elements of the largest operand of a matrix product, in loops too."""

    def sizes(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == "dot_general":
                yield max(operand.aval.size for operand in equation.invars)
            for inner in jax.core.jaxprs_in_params(equation.params):
                yield from sizes(inner)

    return max(sizes(jax.make_jaxpr(function)(*arguments).jaxpr))


@pytest.fixture
def four_at_once(monkeypatch):
    for chunk in ("CHUNK_ON_CPU", "CHUNK_ON_DEVICE"):
        monkeypatch.setattr(lifting, chunk, 4 * N * D)
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.mark.parametrize("n", [N, 2])  # rows one by one and all of S: n > 4 K and n <= 4 K
def test_lifted_in_chunks_is_the_loop(four_at_once, n):
    features, r = problems()

    def one(f, r):
        return greedy_map_from_features(f, r, n, LAMBDA)

    assert largest_product(jax.vmap(one), features, r) == 4 * N * D
    together = jax.vmap(one)(features, r)
    for i in range(Q):
        alone = one(features[i], r[i])
        np.testing.assert_array_equal(together.items[i], alone.items)
        np.testing.assert_allclose(together.gains[i], alone.gains, rtol=1e-5, atol=1e-5)


def test_shared_features_and_masks(four_at_once):
    features, r = problems()
    valid = jnp.asarray(np.random.default_rng(1).random((Q, N)) < 0.7)

    def one(r, valid):
        return greedy_map_from_features(features[0], r, K, LAMBDA, valid)

    together = jax.vmap(one)(r, valid)
    for i in range(Q):
        np.testing.assert_array_equal(together.items[i], one(r[i], valid[i]).items)


def test_lifted_twice():
    features, r = problems()
    pairs = jax.tree.map(lambda leaf: leaf[:10].reshape(5, 2, *leaf.shape[1:]), (features, r))
    one = lambda f, r: greedy_map_from_features(f, r, K, LAMBDA).items  # noqa: E731
    twice = jax.vmap(jax.vmap(one))(*pairs).reshape(10, K)
    np.testing.assert_array_equal(twice, jax.vmap(one)(features, r)[:10])


def test_derivatives_alone_and_lifted_either_way(x64):
    features, r = (jnp.asarray(leaf, jnp.float64) for leaf in problems())

    @jax.jit
    def log_det(f, r):
        return greedy_map_from_features(f, r, K, LAMBDA).gains.sum()

    @jax.jit
    def by_kernel(f, r):
        return greedy_map(conditional_kernel(r, similarity_from_features(f), LAMBDA), K).gains.sum()

    expected = jnp.stack([jax.grad(by_kernel)(features[i], r[i]) for i in range(3)])
    np.testing.assert_allclose(
        jax.grad(log_det)(features[0], r[0]), expected[0], rtol=1e-6, atol=1e-9
    )
    lifted = jax.vmap(jax.grad(log_det))(features[:3], r[:3])
    np.testing.assert_allclose(lifted, expected, rtol=1e-6, atol=1e-9)
    total = jax.grad(lambda f: jax.vmap(log_det)(f, r[:3]).sum())(features[:3])
    np.testing.assert_allclose(total, expected, rtol=1e-6, atol=1e-9)
