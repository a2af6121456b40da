"""Vectors with blocks that do not learn: a network trained beside a head.

A head's relevance is w · w' + weight · cos, where w and w' come from the bank's outputs and
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


class FixedBlocks(NamedTuple):
    """A head's blocks of training queries and of the bank; they stay as they are while a network
    learns beside them."""

    queries: Float[np.ndarray, "q f"]
    bank: Float[np.ndarray, "bank f"]
    weight: float
    """Weight of the network's cosine beside them."""


class TokensBesideBlocks(NamedTuple):
    """Texts and the fixed blocks of their vectors."""

    tokens: Tokens
    blocks: Float[Any, "*shape f"]


def beside_blocks(
    apply: Callable[..., Float[Array, "n d"]], weight: float
) -> Callable[..., Float[Array, "n f+d"]]:
    """Return (parameters, `TokensBesideBlocks`, key=…) → unit vectors along [blocks, √weight · u],
    where u are the unit vectors along those that `apply` (parameters, tokens, key=…) gives."""

    def vectors(
        params: Any, texts: TokensBesideBlocks, *, key: PRNGKeyArray | None = None
    ) -> Array:
        learnt = apply(params, texts.tokens, key=key)
        learnt = np.sqrt(weight) * learnt / norm(learnt)[:, None]
        return unit(jnp.concatenate([texts.blocks, learnt], axis=-1))

    return vectors
