"""Blocked attention against torch's own."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lm_models import model, tokenizer

from ceil_jax.lm import cpu_attention
from ceil_jax.lm.torch_lm import TorchLM


@pytest.mark.parametrize("length", [2, 64, 65, 150])
@pytest.mark.parametrize("masked", [False, True])
def test_equals_torch_in_float32(length, masked):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, heads, length, 8) for heads in (6, 2, 2))
    mask = None
    if masked:  # the second row's first token is padding
        mask = torch.ones(2, 1, length, length, dtype=torch.bool).tril()
        mask[1, :, 1:, 0] = False
    found, _ = cpu_attention.causal_attention(None, query, key, value, mask, scaling=0.3)
    keys, values = (part.repeat_interleave(3, dim=1) for part in (key, value))
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, is_causal=mask is None, scale=0.3
    )
    torch.testing.assert_close(found, expected.transpose(1, 2))


def test_a_few_tokens_behind_a_cache_go_to_torch():
    torch.manual_seed(0)
    query, key, value = torch.randn(1, 2, 1, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
    module = SimpleNamespace(num_key_value_groups=1, is_causal=True)
    found, _ = cpu_attention.causal_attention(module, query, key, value, None, scaling=1.0)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=1.0)
    torch.testing.assert_close(found, expected.transpose(1, 2))


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma3"])
def test_a_model_that_uses_it_says_the_same(kind):
    plain, blocked = model(kind, context=200), model(kind, context=200)
    cpu_attention.use(blocked)
    assert blocked.config._attn_implementation == cpu_attention.NAME
    prompts = ["film good " * 12 + "It is", "a film; It is", "x"]
    choices = [[" good", " bad"], [" good", " so bad"], [" good", " film is"]]
    scores = [
        np.concatenate(TorchLM(network, tokenizer(), name="random").choice_log_likelihood(prompts, choices))
        for network in (plain, blocked)
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)
