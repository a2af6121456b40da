"""Vectors with a part that does not learn: a network trained beside what a free method has learnt
already.

A free method's relevance is w · w' + weight · cos, where w and w' come from the bank's outputs and
the cosine from an encoder. A network that takes the encoder's place has to be trained with w · w'
in its scores: it then learns what these lack, and the kernel that is trained is the kernel that
chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ceil_jax.dpp.lengths import norm, unit
from ceil_jax.encoders.tokenizers import Tokens


class Fixed(NamedTuple):
    """The fixed parts of the vectors of training queries and of the bank."""

    queries: Float[np.ndarray, "q f"]
    bank: Float[np.ndarray, "bank f"]
    weight: float
    """Weight of the network's cosine beside them."""


class WithFixed(NamedTuple):
    """Texts and the fixed parts of their vectors."""

    tokens: Tokens
    fixed: Float[Any, "*shape f"]


def beside_fixed(
    apply: Callable[..., Float[Array, "n d"]], weight: float
) -> Callable[..., Float[Array, "n f+d"]]:
    """Return (parameters, `WithFixed`, key=…) → unit vectors along [fixed, √weight · u], where u
    are the unit vectors along those that `apply` (parameters, tokens, key=…) gives."""

    def vectors(params: Any, texts: WithFixed, *, key: PRNGKeyArray | None = None) -> Array:
        own = apply(params, texts.tokens, key=key)
        own = np.sqrt(weight) * own / norm(own)[:, None]
        both = jnp.concatenate([texts.fixed, own], axis=-1)
        return unit(both)

    return vectors
