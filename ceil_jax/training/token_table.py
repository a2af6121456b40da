"""The texts of a training, tokenised once.

A batch has distinct texts in chunks of similar length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.encoders.tokenizers import TRAINING_LENGTHS, Tokens, pad, padded_length
from ceil_jax.training.fixed_blocks import TokensBesideBlocks

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder


class Texts(NamedTuple):
    """The distinct texts of a batch, tokenised in chunks."""

    chunks: list[Tokens | TokensBesideBlocks]
    """int32 [C, T] each; texts of similar length share a chunk, and T differs between chunks."""
    position: Int[np.ndarray, "*shape"]
    """For each text of the batch, its position in the concatenated chunks."""


class TokenTable:
    """Texts that are tokenised once, with the fixed blocks of their vectors if there are any.

    Batches are padded to one of a few lengths, so that few shapes are compiled.
    """

    def __init__(
        self, encoder: Encoder, texts: Sequence[str], blocks: Float[np.ndarray, "n f"] | None = None
    ) -> None:
        self._blocks = blocks
        self._longest = min(encoder.max_length, TRAINING_LENGTHS[-1])
        self._pad_id = encoder.tokenizer.pad_id
        self._ids = encoder.tokenizer(list(texts), self._longest)

    def __getitem__(self, rows: np.ndarray) -> Tokens | TokensBesideBlocks:
        """Return the tokens of the texts with the numbers `rows`, int32 [*rows.shape, T]."""
        ids = [self._ids[row] for row in rows.reshape(-1)]
        length = padded_length(max(map(len, ids)), self._longest, TRAINING_LENGTHS)
        tokens = pad(ids, length, self._pad_id)
        tokens = Tokens(*(np.reshape(leaf, (*rows.shape, -1)) for leaf in tokens))
        return tokens if self._blocks is None else TokensBesideBlocks(tokens, self._blocks[rows])

    def once(self, rows: np.ndarray, size: int) -> Texts:
        """Return the texts with the numbers `rows`, each text once.

        They are in chunks of at most `size` texts.

        Texts of similar length share a chunk; the last chunk is filled up with copies of its last
        text. Fewer than `size` texts become one chunk, whose size is a multiple of eight, so that
        few shapes are compiled.
        """
        # `rows` = texts[numbers]
        texts, numbers = np.unique(rows, return_inverse=True)
        size = min(size, math.ceil(len(texts) / 8) * 8)
        # the numbers of the texts by length, filled up and cut into chunks
        order = np.argsort([len(self._ids[text]) for text in texts], kind="stable")
        missing = -len(order) % size
        chunks = np.pad(order, (0, missing), mode="edge").reshape(-1, size)
        # where each text stands in that order
        place = np.argsort(order)
        return Texts([self[texts[chunk]] for chunk in chunks], place[numbers].reshape(rows.shape))
