"""Lengths of vectors, and vectors of length 1: in jax with gradients, in numpy for banks.

Vectors may have any length: they are scaled by a power of two before they are squared, which costs
no accuracy. Vectors of zeros stay zeros and are orthogonal to all others.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

SHORTEST = 1e-6
"""The minimum length: shorter vectors count as having it. If it were smaller, the gradient at zero would
overflow."""


def of_moderate_length(vectors: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
    """Return each vector scaled by a power of two, so that its length cannot overflow.

    Its largest component is then between 0.5 and 1. Vectors of zeros are unchanged.

    Squares of the components then neither overflow nor underflow. Powers of two cost no accuracy;
    cosines and their gradients are unchanged.
    """
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(vectors), axis=-1, keepdims=True, initial=0))
    _, exponent = jnp.frexp(largest)
    # 2 to the power of −126 is the smallest normal number of float32
    scale = jnp.ldexp(jnp.ones_like(largest), -jnp.clip(exponent, -126, 126))
    return vectors * jnp.where(jnp.isfinite(largest), scale, 1)


def norm(vectors: Float[Array, "*b d"]) -> Float[Array, "*b"]:
    """Return the length of each vector, at least `SHORTEST`."""
    return jnp.sqrt(jnp.maximum(jnp.sum(vectors * vectors, axis=-1), SHORTEST**2))


def unit(vectors: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
    """Return the vectors scaled to length 1; vectors of zeros are unchanged.

    >>> unit(jnp.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    scaled = of_moderate_length(vectors)
    return scaled / norm(scaled)[..., None]


def unit_rows(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """`unit` in numpy, for many rows on the host; the dtype is kept.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    vectors = np.asarray(vectors)
    _, exponents = np.frexp(np.abs(vectors).max(axis=1, keepdims=True, initial=0))
    scaled = np.ldexp(vectors, -np.clip(exponents, -126, 126))
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), SHORTEST)
