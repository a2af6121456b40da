"""experiments/inner_layers.py: an encoder that stops after an inner layer."""

import numpy as np
import pytest
from inner_layers import inner_layer

from ceil_jax import load_encoder
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.tokenizers import pad
from ceil_jax.encoders.transformer import mean_pool
from ceil_jax.errors import UserError

TEXTS = ["a dull film", "great fun for the whole family", "the ferry arrived late"]


@pytest.fixture(scope="module")
def whole():
    return load_encoder("all-MiniLM-L6-v2")


@pytest.mark.parametrize("layer", [1, 3, 6])
def test_the_vector_is_the_mean_of_that_layers_tokens(whole, layer):
    ids = whole.tokenizer(TEXTS, whole.max_length)
    tokens = pad(ids, 16, whole.tokenizer.pad_id)
    states = whole.module.hidden_states(*tokens)
    expected = unit_rows(np.asarray(mean_pool(states[layer], tokens.mask)))[: len(TEXTS)]
    shortened = inner_layer(whole, layer)
    np.testing.assert_allclose(shortened.encode(TEXTS), expected, atol=1e-5)
    assert shortened.dim == whole.dim
    is_whole = layer == 6
    assert (len(shortened.params) == len(whole.params)) == is_whole
    assert (shortened.fingerprint == whole.fingerprint) == is_whole


def test_it_has_a_name_and_is_saved_as_a_smaller_network(whole, tmp_path):
    encoder = load_encoder("inner_layers:layer_3")
    vectors = encoder.encode(TEXTS)
    np.testing.assert_allclose(vectors, inner_layer(whole, 3).encode(TEXTS), atol=1e-6)
    encoder.save_pretrained(tmp_path)
    saved = load_encoder(tmp_path)
    assert saved.checkpoint.network.layers == 3
    np.testing.assert_allclose(saved.encode(TEXTS), vectors, atol=1e-6)
    assert (tmp_path / "model.safetensors").stat().st_size < 70e6


def test_a_layer_that_is_not_there_is_refused(whole):
    for layer in (0, 7):
        with pytest.raises(UserError, match="layers 1 to 6"):
            inner_layer(whole, layer)
    with pytest.raises(UserError, match="no layers that are known"):
        inner_layer(load_encoder("tiny"), 1)
