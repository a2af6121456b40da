"""Synthetic vectors that behave like embeddings: clusters on the sphere, and queries near the bank's items."""

from __future__ import annotations

import numpy as np

ITEMS_PER_CLUSTER = 100


def bank(rng: np.random.Generator, count: int, dim: int) -> np.ndarray:
    """Return unit rows, float32 [count, dim], in clusters; two items of a cluster have a cosine of about 0.5."""
    centres = rng.standard_normal((max(1, count // ITEMS_PER_CLUSTER), dim), np.float32)
    rows = centres[rng.integers(len(centres), size=count)] + rng.standard_normal(
        (count, dim), np.float32
    )
    return unit(rows)


def queries(rng: np.random.Generator, items: np.ndarray, count: int) -> np.ndarray:
    """Return queries as unit rows, float32 [count, dim], each with a cosine of about 0.7 to one item."""
    near = items[rng.integers(len(items), size=count)]
    noise = rng.standard_normal(near.shape, np.float32) / np.sqrt(np.float32(near.shape[1]))
    return unit(near + noise)


def unit(rows: np.ndarray) -> np.ndarray:
    """Return each row divided by its length."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
