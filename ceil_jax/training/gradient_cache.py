"""The gradient of a loss of many texts' vectors, through chunks of texts of similar length.

The texts are encoded chunk by chunk; the loss gives the gradient with respect to all vectors; each
chunk's part of it is then propagated through that chunk. Little of a chunk is padding, which is
most of the work where a batch is padded to its longest text. Of many texts only the vectors are
kept, and their chunks are encoded again for the backward pass: the exact gradient in the memory of
one chunk (Gao et al., RepL4NLP 2021, section 3.2).
"""

from __future__ import annotations

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
"""Texts in a batch at most whose activations are kept for the backward pass: about 1 GiB for a
small encoder."""


class Texts(NamedTuple):
    """The different texts of a batch, tokenised in chunks."""

    chunks: list[Tokens | TokensBesideBlocks]
    """int32 [C, T] each; texts of similar length share a chunk, and T differs between chunks."""
    place: Int[np.ndarray, "*shape"]
    """Position of the text that belongs here, in the chunks laid end to end."""


class TokenTable:
    """Texts that an encoder's tokenizer tokenises once, and the fixed blocks of their vectors if
    they have some.

    Batches are padded to one of a few lengths, so that few shapes compile.
    """

    def __init__(
        self, encoder: Encoder, texts: Sequence[str], blocks: Float[np.ndarray, "n f"] | None = None
    ) -> None:
        self._blocks = blocks
        self._longest = min(encoder.max_length, TRAINING_LENGTHS[-1])
        self._pad_id = encoder.tokenizer.pad_id
        self._ids = encoder.tokenizer(list(texts), self._longest)

    def __getitem__(self, rows: np.ndarray) -> Tokens | TokensBesideBlocks:
        """Return the texts numbered `rows`, int32 [*rows.shape, T]."""
        ids = [self._ids[row] for row in rows.reshape(-1)]
        length = padded_length(max(map(len, ids)), self._longest, TRAINING_LENGTHS)
        tokens = pad(ids, length, self._pad_id)
        tokens = Tokens(*(np.reshape(leaf, (*rows.shape, -1)) for leaf in tokens))
        return tokens if self._blocks is None else TokensBesideBlocks(tokens, self._blocks[rows])

    def once(self, rows: np.ndarray, size: int) -> Texts:
        """Return each of the texts numbered `rows` once, in chunks of at most `size` texts.

        Texts of similar length share a chunk; the last chunk is filled up with copies of its last
        text. Few texts make one chunk of a multiple of eight, so that few shapes compile.
        """
        texts, position = np.unique(rows, return_inverse=True)
        size = min(size, -(-len(texts) // 8) * 8)
        order = np.argsort([len(self._ids[text]) for text in texts], kind="stable")
        chunks = np.pad(order, (0, -len(order) % size), mode="edge").reshape(-1, size)
        return Texts(
            [self[texts[chunk]] for chunk in chunks],
            np.argsort(order)[position].reshape(rows.shape),
        )


class GradientCache:
    """A loss of the vectors of many texts: its value and its exact gradient.

    Args:
        apply: (parameters, a chunk of `Texts`, key=dropout key) → vectors [C, D].
        name: which of the parameters `apply` takes.
        loss: (parameters by name, vectors [*place.shape, D], batch, dropout key) → scalar.
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

        def backward(back: Any, wanted: Float[Array, "c d"], gradient: Any) -> Any:
            return jax.tree.map(jnp.add, gradient, *back(wanted))

        self._name = name
        self._encode = jit_whole(lambda params, tokens, key: encode(params, tokens, key=key))
        # activations stay on the devices that computed them
        self._forward = jax.jit(forward)
        self._backward = jit_whole(backward)
        self._loss = jit_whole(jax.value_and_grad(loss, argnums=(0, 1)))

    def vectors(self, params: Any, texts: Texts) -> Float[np.ndarray, "*shape d"]:
        """The vector of the text at every place by the parameters of `apply`, without
        dropout."""
        # all chunks are under way before the first is waited for
        return np.concatenate([self._encode(params, tokens, None) for tokens in texts.chunks])[
            texts.place
        ]

    def __call__(
        self, params: Mapping[str, Any], texts: Texts, batch: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], dict[str, Any]]:
        """Return the loss and its gradient with respect to all of `params`; `batch` is the loss's
        third argument."""
        of_loss, of_texts = jax.random.split(key)
        weights = params[self._name]
        chunks = [
            (tokens, jax.random.fold_in(of_texts, number))
            for number, tokens in enumerate(texts.chunks)
        ]
        keep = sum(len(jax.tree.leaves(tokens)[0]) for tokens in texts.chunks) <= _KEPT
        forward = self._forward if keep else lambda *rest: (self._encode(*rest), None)
        chunk_vectors, backs = zip(*(forward(weights, *chunk) for chunk in chunks), strict=True)
        encoded = np.concatenate(chunk_vectors)
        value, (gradient, at_places) = self._loss(params, encoded[texts.place], batch, of_loss)
        slopes = np.zeros_like(encoded)
        np.add.at(slopes, texts.place, np.asarray(at_places))
        through = gradient[self._name]
        for chunk, back, slope in zip(chunks, backs, np.split(slopes, len(chunks)), strict=True):
            if not keep:
                _, back = self._forward(weights, *chunk)
            through = self._backward(back, slope, through)
        return value, {**gradient, self._name: through}
