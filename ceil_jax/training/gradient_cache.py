"""The gradient of a loss over more texts than one backward pass has memory for.

The texts are encoded in chunks, nothing of which is kept but the vectors; the loss says how it depends on those; each
chunk is then encoded again, and its vectors' part of the gradient goes back through it. That is the gradient of the
loss, with the memory of a chunk, for one more forward pass (Gao et al., RepL4NLP 2021, section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ceil_jax.distributed.devices import jit_whole, over_devices
from ceil_jax.encoders.tokenizers import Tokens

if TYPE_CHECKING:
    from jaxtyping import Array, Float

Params = Any


class Texts(NamedTuple):
    """The texts of a batch, each of them once."""

    chunks: list[Tokens]
    """Tokens [C, T] each, of like length; T differs."""
    place: np.ndarray
    """int, of any shape: where in the chunks, laid end to end, the text is that stands here."""

    def encoded(self, encode: Callable[[int, Tokens], jax.Array]) -> np.ndarray:
        """float32 [chunks · C, D]: the chunks laid end to end, by (a chunk's number, its tokens) → vectors [C, D]."""
        # all are under way before the first is waited for
        found = [encode(number, tokens) for number, tokens in enumerate(self.chunks)]
        return np.concatenate([np.asarray(vectors) for vectors in found])


class GradientCache:
    """A loss of the vectors of many texts: its value, and its gradient, which is exact.

    Args:
        apply: (parameters, tokens [C, T], key=dropout key) → vectors [C, D].
        name: of the parameters, those that `apply` takes.
        loss: (parameters by name, vectors [*place.shape, D], batch, dropout key) → scalar.
    """

    def __init__(
        self, apply: Callable[..., Float[Array, "b d"]], name: str, loss: Callable[..., jax.Array]
    ) -> None:
        encode = over_devices(apply)

        def back(
            params: Params, tokens: Tokens, key: jax.Array, vectors: np.ndarray, gradient: Params
        ) -> Params:
            _, through = jax.vjp(lambda params: encode(params, tokens, key=key), params)
            return jax.tree.map(jnp.add, gradient, *through(vectors))

        self._name = name
        self._encode = jit_whole(lambda params, tokens, key: encode(params, tokens, key=key))
        self._back = jit_whole(back)
        self._loss = jit_whole(jax.value_and_grad(loss, argnums=(0, 1)))

    def vectors(self, params: Mapping[str, Params], texts: Texts) -> np.ndarray:
        """float32 [*place.shape, D]: of every text where it is asked for, without dropout."""
        return self._encoded(params, texts, None)[texts.place]

    def __call__(
        self, params: Mapping[str, Params], texts: Texts, batch: Any, key: jax.Array
    ) -> tuple[jax.Array, dict[str, Params]]:
        """(loss, its gradient by every one of `params`)."""
        own, theirs = jax.random.split(key)
        encoded = self._encoded(params, texts, theirs)
        value, (gradient, vectors) = self._loss(params, encoded[texts.place], batch, own)
        of_texts = np.zeros_like(encoded)
        np.add.at(of_texts, texts.place, np.asarray(vectors))
        parts = of_texts.reshape(len(texts.chunks), -1, encoded.shape[-1])
        for place, (tokens, part) in enumerate(zip(texts.chunks, parts, strict=True)):
            chunk_key = jax.random.fold_in(theirs, place)
            through = self._back(params[self._name], tokens, chunk_key, part, gradient[self._name])
            gradient = {**gradient, self._name: through}
        return value, gradient

    def _encoded(self, params: Mapping[str, Params], texts: Texts, key: jax.Array | None) -> np.ndarray:
        def encode(number: int, tokens: Tokens) -> jax.Array:
            own = None if key is None else jax.random.fold_in(key, number)
            return self._encode(params[self._name], tokens, own)

        return texts.encoded(encode)
