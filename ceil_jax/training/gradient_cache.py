"""The gradient of a loss over the vectors of many texts.

It is computed in chunks of texts of similar length.

The texts are encoded chunk by chunk; the loss gives the gradient with respect to all vectors; each
chunk's part of it is then propagated back through that chunk. Chunks of similar length need little
padding, which is most of the work in a batch padded to its longest text. If there are many texts,
only their vectors are kept, and chunks are encoded again for the backward pass: this gives the
exact gradient in the memory of one chunk (Gao et al., RepL4NLP 2021, section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ceil_jax.distributed.devices import device_mesh, jit_whole, over_devices, whole
from ceil_jax.training.token_table import Texts

_KEPT = 256
"""The maximum number of texts in a batch whose activations are kept for the backward pass: about 1
GiB for a small encoder."""


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
        """Return the vectors of all texts of a batch, without dropout.

        `params` are the parameters of `apply`.
        """
        # all chunks are started before the first result is awaited
        return np.concatenate([self._encode(params, tokens, None) for tokens in texts.chunks])[
            texts.position
        ]

    def __call__(
        self, params: Mapping[str, Any], texts: Texts, batch: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], dict[str, Any]]:
        """Return the loss and its gradient with respect to all parameters.

        `batch` is the third argument of the loss.
        """
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
