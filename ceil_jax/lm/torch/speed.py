"""How fast this machine reads with an LM, from one matrix product."""

from __future__ import annotations

import time

import torch

from ceil_jax.lm.torch.loading import device_of, dtype_of

SHARE = {"cpu": 0.85, "cuda": 0.4}
"""The share of the product's speed that reading reaches: on a CPU measured with SmolLM2-135M, on a GPU a guess."""

_SHAPE = 1024, 576, 1536
"""A pass of 1,024 tokens through a layer of SmolLM2-135M."""


def reading_speed(dtype: str = "auto") -> float:
    """Return parameters × tokens a second that an LM would read here. Takes about a second.

    Args:
        dtype: the LM's dtype, as `load_lm` takes it.
    """
    device = device_of("auto")
    precision = dtype_of(dtype, device)
    rows, inner, columns = _SHAPE
    left = torch.ones(rows, inner, dtype=precision, device=device)
    right = torch.ones(inner, columns, dtype=precision, device=device)
    fastest = float("inf")
    end = time.perf_counter() + 1
    while time.perf_counter() < end:
        began = time.perf_counter()
        product = left @ right
        product[0, 0].item()  # waits for a GPU
        fastest = min(fastest, time.perf_counter() - began)
    # two operations a parameter and token
    return SHARE[device.type] * rows * inner * columns / fastest
