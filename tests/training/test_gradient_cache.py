"""The gradient through chunks of texts is that of the whole loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ceil_jax.training.gradient_cache import GradientCache
from ceil_jax.training.token_table import TokenTable

TEXTS = [
    "dull",
    "a film",
    "a long and quiet film at sea",
    "bright",
    "a bright film",
    "sea",
    "word " * 40,
]
ASKED = np.array([[0, 3, 1, 2], [2, 4, 0, 5], [5, 6, 2, 1]])


def apply(params, tokens, *, key=None):
    """The mean of embeddings through a layer; with dropout that depends on a text's place in its
    chunk."""
    words = params["table"][tokens.ids % 64] * tokens.mask[..., None]
    if key is not None:
        words = jnp.where(jax.random.bernoulli(key, 0.8, words.shape), words / 0.8, 0)
    return jnp.tanh(words.sum(1) @ params["layer"])


def loss(params, vectors, batch, key):
    """A loss of the examples' vectors and of its own parameters, some of which are the examples'
    too."""
    wanted = jnp.tanh(batch @ params["query"]["layer"])
    noise = 0 if key is None else 0.1 * jax.random.normal(key, wanted.shape)
    return jnp.mean(jnp.square(jnp.einsum("bnd,bd->bn", vectors, wanted + noise)))


@pytest.fixture
def case():
    keys = jax.random.split(jax.random.key(0), 3)
    table = jax.random.normal(keys[0], (64, 16))
    layer = jax.random.normal(keys[1], (16, 5)) / 4
    context = {"table": table, "layer": layer}
    params = {"query": jax.tree.map(jnp.copy, context), "context": context}
    return params, np.asarray(jax.random.normal(keys[2], (3, 16)))


@pytest.fixture
def table():
    from ceil_jax.encoders.registry import load_encoder

    return TokenTable(load_encoder("tiny"), TEXTS)


@pytest.mark.parametrize("name", ["query", "context"])
@pytest.mark.parametrize("size", [3, 64])
@pytest.mark.parametrize("kept", [0, 256])
def test_it_is_the_gradient_of_the_loss(case, table, monkeypatch, name, size, kept):
    """Whether activations are kept or computed again."""
    monkeypatch.setattr("ceil_jax.training.gradient_cache._KEPT", kept)
    params, batch = case
    texts = table.once(ASKED, size)
    key = jax.random.key(7)
    own, theirs = jax.random.split(key)

    def whole(params):
        chunks = [
            apply(params[name], tokens, key=jax.random.fold_in(theirs, place))
            for place, tokens in enumerate(texts.chunks)
        ]
        return loss(params, jnp.concatenate(chunks)[texts.position], batch, own)

    expected, expected_gradient = jax.value_and_grad(whole)(params)
    value, gradient = GradientCache(apply, name, loss)(params, texts, batch, key)
    assert float(value) == pytest.approx(float(expected), rel=1e-5)
    assert jax.tree.structure(gradient) == jax.tree.structure(params)
    for ours, theirs in zip(
        jax.tree.leaves(gradient), jax.tree.leaves(expected_gradient), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    assert float(jnp.abs(gradient[name]["table"]).max()) > 1e-3


def test_without_a_key_vectors_are_those_of_the_texts(case, table):
    params, _ = case
    cache = GradientCache(apply, "context", loss)
    found = cache.vectors(params["context"], table.once(ASKED, 3))
    tokens = table[ASKED.reshape(-1)]
    expected = apply(params["context"], tokens).reshape(3, 4, -1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
