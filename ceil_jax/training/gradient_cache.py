"""The gradient of a loss over the vectors of many texts, computed in chunks of texts of similar
length.

The texts are encoded chunk by chunk; the loss gives the gradient with respect to all vectors; each
chunk's part of it is then propagated back through that chunk. Chunks of similar length need little
padding, which is most of the work in a batch padded to its longest text. If there are many texts,
only their vectors are kept, and chunks are encoded again for the backward pass: this gives the
exact gradient in the memory of one chunk (Gao et al., RepL4NLP 2021, section 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ceil_jax.distributed.devices import device_mesh, jit_whole, over_devices, whole
from ceil_jax.encoders.tokenizers import TRAINING_LENGTHS, Tokens, pad, padded_length
from ceil_jax.training.fixed_blocks import TokensBesideBlocks

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

_KEPT = 256
"""The most texts in a batch whose activations are kept for the backward pass: about 1 GiB for a
small encoder."""


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
        """Return the texts with the numbers `rows`, each text once, in chunks of at most `size`
        texts.

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


class GradientCache:
    """The value and the exact gradient of a loss over the vectors of many texts.

    Args:
        apply: (parameters, a chunk of `Texts`, key=dropout key) → vectors [C, D].
        name: the name of the parameters that `apply` takes.
        loss: (parameters by name, vectors [*position.shape, D], batch, dropout key) → scalar.
    """

    def __init__(
        self,
        apply: Callable[..., Float[Array, "c d"]],
        name: str,
        loss: Callable[..., Float[Array, ""]],
    ) -> None:
        encode = over_devices(apply)

        def forward(params: Any, tokens: Any, key: PRNGKeyArray) -> tuple[Float[Array, "c d"], Any]:
            vectors, back = jax.vjp(lambda params: encode(params, tokens, key=key), params)
            return jax.lax.with_sharding_constraint(vectors, whole(device_mesh())), back

        def backward(back: Any, cotangents: Float[Array, "c d"], gradient: Any) -> Any:
            return jax.tree.map(jnp.add, gradient, *back(cotangents))

        self._name = name
        self._encode = jit_whole(lambda params, tokens, key: encode(params, tokens, key=key))
        # activations stay on the devices that computed them
        self._forward = jax.jit(forward)
        self._backward = jit_whole(backward)
        self._loss = jit_whole(jax.value_and_grad(loss, argnums=(0, 1)))

    def vectors(self, params: Any, texts: Texts) -> Float[np.ndarray, "*shape d"]:
        """Return the vectors of all texts of a batch, without dropout. `params` are the parameters
        of `apply`."""
        # all chunks are started before the first result is awaited
        return np.concatenate([self._encode(params, tokens, None) for tokens in texts.chunks])[
            texts.position
        ]

    def __call__(
        self, params: Mapping[str, Any], texts: Texts, batch: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], dict[str, Any]]:
        """Return the loss and its gradient with respect to all parameters. `batch` is the third
        argument of the loss."""
        of_loss, of_texts = jax.random.split(key)
        weights = params[self._name]
        chunks = [
            (tokens, jax.random.fold_in(of_texts, number))
            for number, tokens in enumerate(texts.chunks)
        ]
        # 1. The vectors of all texts. If there are few, their activations are kept for step 3.
        keep = sum(len(jax.tree.leaves(tokens)[0]) for tokens in texts.chunks) <= _KEPT
        chunk_vectors = []
        backs: list[Any] = []
        for chunk in chunks:
            if keep:
                vectors, back = self._forward(weights, *chunk)
            else:
                vectors = self._encode(weights, *chunk)
                back = None
            chunk_vectors.append(vectors)
            backs.append(back)
        encoded = np.concatenate(chunk_vectors)
        # 2. The loss of these vectors, and its gradient with respect to each of them.
        value, (gradient, of_positions) = self._loss(
            params, encoded[texts.position], batch, of_loss
        )
        vector_gradients = np.zeros_like(encoded)
        np.add.at(vector_gradients, texts.position, np.asarray(of_positions))
        # 3. From the vectors back to the parameters, chunk by chunk.
        through = gradient[self._name]
        for chunk, back, chunk_gradient in zip(
            chunks, backs, np.split(vector_gradients, len(chunks)), strict=True
        ):
            if not keep:
                _, back = self._forward(weights, *chunk)
            through = self._backward(back, chunk_gradient, through)
        return value, {**gradient, self._name: through}
