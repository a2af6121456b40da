"""Training of a network together with a head, whose blocks of the vectors stay fixed.

A head's relevance is w · w' + weight · cos, where the blocks w and w' come from the head and the
cosine from an encoder. A network that replaces the encoder is trained with w · w' in its scores: it
then learns what these lack, and the kernel in training is the one that chooses afterwards.
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
    """The blocks that a head adds to the vectors of training queries and of the bank.

    They do not change while the network is trained.
    """

    queries: Float[np.ndarray, "q f"]
    bank: Float[np.ndarray, "bank f"]
    weight: float
    """The weight of the network's cosine, added to the dot product of the blocks."""


class TokensBesideBlocks(NamedTuple):
    """Tokenised texts, and the fixed blocks of their vectors."""

    tokens: Tokens
    blocks: Float[Any, "*shape f"]


def beside_blocks(
    apply: Callable[..., Float[Array, "n d"]], weight: float
) -> Callable[..., Float[Array, "n f+d"]]:
    """Return a function that prepends a fixed block to the vectors of `apply`.

    It returns [blocks, √weight · u] scaled to unit length, where u are the vectors of `apply`, also
    scaled to unit length.
    """

    def vectors(
        params: Any, texts: TokensBesideBlocks, *, key: PRNGKeyArray | None = None
    ) -> Array:
        learnt = apply(params, texts.tokens, key=key)
        learnt = np.sqrt(weight) * learnt / norm(learnt)[:, None]
        return unit(jnp.concatenate([texts.blocks, learnt], axis=-1))

    return vectors
