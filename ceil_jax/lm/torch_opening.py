"""The opening that prompts share, read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache


class Opening:
    """Keys and values of a text's first `length` tokens, all of them, also in layers that look back less."""

    def __init__(self, config: Any, length: int, cache: DynamicCache):
        self.length = length
        self._config = config
        self._cache = cache

    @classmethod
    @torch.inference_mode()
    def read(cls, model: Any, ids: Sequence[int]) -> Opening:
        """Reads a text; an empty one is an opening of length 0."""
        cache = DynamicCache()
        if ids:
            tokens = torch.tensor([list(ids)], device=model.device)
            model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return cls(model.config, len(ids), cache)

    def before(self, lengths: Sequence[int]) -> DynamicCache:
        """A cache of one row for each length: the opening's first so many tokens, padded on the left to the
        whole opening's length."""
        cache = DynamicCache(config=self._config)
        if self.length:
            first = self._cache.layers[0].keys
            columns = torch.arange(self.length, device=first.device)
            padding = self.length - torch.tensor(list(lengths), device=first.device)
            source = (columns - padding[:, None]).clamp(min=0)
            for index, layer in enumerate(self._cache.layers):
                # [heads, rows, tokens, width] -> [rows, heads, tokens, width]
                keys, values = (part[0][:, source].transpose(0, 1) for part in (layer.keys, layer.values))
                cache.update(keys, values, index)
        return cache
