"""The protocol of an encoder of examples, with a side for queries and one for the bank.

`example_encoder` wraps any encoder with `encode(texts)`, once, where it is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from ceil_jax.encoders.text_encoder import sides
from ceil_jax.tasks.example import Example


class ExampleEncoder(Protocol):
    """Maps queries and examples to vectors of one length, whose cosines are relevance.

    Examples:
        >>> class Lengths:
        ...     def encode_queries(self, queries):
        ...         return np.array([[len(query.input), 10.0] for query in queries])
        ...     encode_bank = encode_queries
        >>> from ceil_jax import build_retriever
        >>> bank = [Example("a", "a long and dull film", ""), Example("b", "fun", "")]
        >>> dense = build_retriever("dense", bank, encoder=Lengths())
        >>> [[pick]] = dense.retrieve([Example("c", "warm", "")], k=1)
        >>> pick.id
        'b'
    """

    def encode_queries(self, queries: Sequence[Example]) -> Float[np.ndarray, "q d"]:
        """Return the vectors of queries, float32 [Q, D]. Their outputs are not read."""

    def encode_bank(self, examples: Sequence[Example]) -> Float[np.ndarray, "n d"]:
        """Return the vectors of bank examples, float32 [N, D]. Their outputs may be read."""


def example_encoder(encoder: Any) -> ExampleEncoder:
    """Return an encoder of examples, which has a side for queries and one for the bank.

    The encoder itself if it has them, else a wrapper of its `encode(texts)`.

    >>> import numpy as np
    >>> class Lengths:
    ...     def encode(self, texts):
    ...         return np.array([[len(text), 1] for text in texts])
    >>> example_encoder(Lengths()).encode_queries([Example("1", "dull", "")])
    array([[4, 1]])
    """
    if any(callable(getattr(encoder, side, None)) for side in ("encode_queries", "encode_bank")):
        return encoder
    return sides(encoder)
