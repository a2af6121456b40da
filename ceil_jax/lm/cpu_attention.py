"""Causal attention for bfloat16 on a CPU, about three times as fast as torch's own.

Reading prompts with a small LM, torch's fused attention takes a third of the time for a twelfth of the
arithmetic. Here the query heads that share a key head are laid one under the other, so that the products are
larger, and a block of queries meets only the keys up to its own last one. Scores are rounded to bfloat16
before the softmax, as in transformers' `eager` attention.
"""

from __future__ import annotations

from typing import Any

NAME = "ceil_jax_cpu"
QUERIES = 64
"""A block's queries: more of them compute more that the causal mask hides, fewer make smaller products."""


def use(model: Any) -> None:
    """Lets a model that attends through torch's `sdpa` attend through `causal_attention` instead."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    if model.config._attn_implementation == "sdpa" and model._can_set_attn_implementation():
        AttentionInterface.register(NAME, causal_attention)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)


def causal_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    **rest: Any,
) -> tuple[Any, None]:
    """softmax(q kᵀ · scaling) v of [batch, heads, tokens, width], as [batch, tokens, heads, width].

    Anything but a text read from its beginning (tokens behind a cache, biases) goes to torch's own.
    """
    batch, heads, length, width = query.shape
    whole = 1 < length == key.shape[2] and rest.get("position_bias") is None
    if not whole or rest.get("softcap") is not None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **rest)
    key_heads = key.shape[1]
    query = query * (width**-0.5 if scaling is None else scaling)
    keys = key.reshape(batch * key_heads, length, width).transpose(1, 2)
    values = value.reshape(batch * key_heads, length, value.shape[3])
    mixed = query.new_empty(batch, length, heads, value.shape[3])
    for start in range(0, length, QUERIES):
        end = min(start + QUERIES, length)
        block = query[:, :, start:end].reshape(batch * key_heads, -1, width)
        scores = block.bmm(keys[:, :, :end]).view(batch, heads, end - start, end)
        lowest = float("-inf")
        if attention_mask is None:
            later = scores.new_ones(end - start, end - start).triu(1).bool()
            scores[..., start:].masked_fill_(later, lowest)
        else:
            scores.masked_fill_(~attention_mask[:, :, start:end, :end], -3e38)
        weights = scores.softmax(-1).view(batch * key_heads, -1, end)
        out = weights.bmm(values[:, :end]).view(batch, heads, end - start, -1)
        mixed[:, start:end] = out.transpose(1, 2)
    return mixed, None
