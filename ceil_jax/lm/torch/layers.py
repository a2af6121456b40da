"""The hidden states of a causal LM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def two_layers(model: Any, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the hidden states of a causal model's middle layer and of its last one, as they are
    before the output matrix, each [rows, tokens, D]."""
    output = model.base_model(**inputs, use_cache=False, output_hidden_states=True)
    layers = output.hidden_states
    return layers[len(layers) // 2], layers[-1]
