"""The BERT, RoBERTa and MPNet networks, from token ids to a vector for each text.

The three share one architecture: learned positions, post-norm layers and a pooled last layer.
RoBERTa and MPNet number the tokens that are not padding from position `pad_id + 1` on. MPNet has no
token types, and adds to the attention scores a bias that depends on the relative position and is
shared by all layers.

Shapes: b texts, t tokens, d the width, h attention heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

Family = Literal["bert", "roberta", "mpnet"]
Pooling = Literal["mean", "cls"]
Ids = Int[Array, "b t"] | Int[np.ndarray, "b t"]
"""Token ids or their mask, int32 [B, T]; numpy arrays outside of jit."""

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_new": jax.nn.gelu,
    "gelu_pytorch_tanh": jax.nn.gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}


@dataclass(frozen=True)
class TransformerConfig:
    """The shape of a network."""

    family: Family
    vocab_size: int
    width: int
    layers: int
    heads: int
    hidden: int
    """The width inside the feed-forward layers."""
    positions: int
    """Number of rows of the position table."""
    token_types: int = 2
    pad_id: int = 0
    activation: str = "gelu"
    norm_epsilon: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1
    relative_buckets: int = 32
    """MPNet only."""
    pooling: Pooling = "mean"
    normalize: bool = True
    """Divide each vector by its length."""


class Attention(nnx.Module):
    """Multi-head attention, softmax(QKᵀ/√d + bias) V, and an output projection (Vaswani et al.
    2017, §3.2)."""

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs) -> None:
        self.heads = config.heads
        self.dropout = config.attention_dropout
        linear = partial(nnx.Linear, config.width, config.width, kernel_init=_normal, rngs=rngs)
        self.query = linear()
        self.key = linear()
        self.value = linear()
        self.output = linear()

    def __call__(
        self, x: Float[Array, "b t d"], bias: Float[Array, "#b #h #t t"], key: jax.Array | None
    ) -> Float[Array, "b t d"]:
        projections = self.query, self.key, self.value
        q, k, v = (project(x).reshape(*x.shape[:2], self.heads, -1) for project in projections)
        # scores and softmax are computed in float32 for every dtype
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32)
        weights = jax.nn.softmax(scores / math.sqrt(q.shape[-1]) + bias, axis=-1).astype(x.dtype)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", dropout(weights, self.dropout, key), v)
        return self.output(mixed.reshape(x.shape))


class Layer(nnx.Module):
    """A post-norm layer: x ← norm(x + attention(x)); x ← norm(x + down(act(up(x))))."""

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs) -> None:
        self.dropout = config.dropout
        self.activation = config.activation
        self.attention = Attention(config, rngs)
        self.attention_norm = _norm(config, rngs)
        self.up = nnx.Linear(config.width, config.hidden, kernel_init=_normal, rngs=rngs)
        self.down = nnx.Linear(config.hidden, config.width, kernel_init=_normal, rngs=rngs)
        self.norm = _norm(config, rngs)

    def __call__(
        self, x: Float[Array, "b t d"], bias: Float[Array, "#b #h #t t"], key: jax.Array | None
    ) -> Float[Array, "b t d"]:
        keys = _split(key, 3)
        x = self.attention_norm(
            x + dropout(self.attention(x, bias, keys[0]), self.dropout, keys[1])
        )
        hidden = ACTIVATIONS[self.activation](self.up(x))
        return self.norm(x + dropout(self.down(hidden), self.dropout, keys[2]))


class InputEmbeddings(nnx.Module):
    """The input of the first layer: norm(word + position + token type 0)."""

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs) -> None:
        embed = partial(nnx.Embed, features=config.width, embedding_init=_normal, rngs=rngs)
        self.config = config
        self.word = embed(config.vocab_size)
        self.position = embed(config.positions)
        if config.family != "mpnet":
            self.token_type = embed(config.token_types)
        self.norm = _norm(config, rngs)

    def __call__(self, ids: Int[Array, "b t"]) -> Float[Array, "b t d"]:
        if self.config.family == "bert":
            positions = jnp.arange(ids.shape[1])[None]
        else:
            # positions depend on the ids and not on the mask, because the released checkpoints were
            # trained that way: a literal <pad> in a text also gets the padding position
            real = (ids != self.config.pad_id).astype(jnp.int32)
            positions = jnp.cumsum(real, axis=1) * real + self.config.pad_id
        x = self.word(ids) + self.position(positions)
        if self.config.family != "mpnet":
            x = x + self.token_type(jnp.zeros((1, 1), jnp.int32))
        return self.norm(x)


class Transformer(nnx.Module):
    """The whole network, from `(ids, mask)`, both int32 [B, T], to pooled vectors [B, D].

    The vectors have unit length if the configuration says so.
    """

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs) -> None:
        self.config = config
        self.embeddings = InputEmbeddings(config, rngs)
        if config.family == "mpnet":
            self.relative_position = nnx.Embed(
                config.relative_buckets, config.heads, embedding_init=_normal, rngs=rngs
            )
        self.layers = nnx.List([Layer(config, rngs) for _ in range(config.layers)])

    def bias(self, mask: Ids) -> Float[Array, "#b #h #t t"]:
        """The term that is added to the attention scores.

        The lowest float32 for padding, and MPNet's bias for relative positions.
        """
        bias = jnp.where(mask[:, None, None, :] > 0, 0.0, jnp.finfo(jnp.float32).min)
        if self.config.family == "mpnet":
            buckets = relative_buckets(mask.shape[1], self.config.relative_buckets)
            relative = self.relative_position(jnp.asarray(buckets)).astype(jnp.float32)
            bias = bias + relative.transpose(2, 0, 1)[None]
        return bias

    def hidden_states(
        self, ids: Ids, mask: Ids, *, key: jax.Array | None = None
    ) -> list[Float[Array, "b t d"]]:
        """Return the embeddings and the output of every layer; `key` turns dropout on."""
        keys = _split(key, 1 + len(self.layers))
        states = [dropout(self.embeddings(jnp.asarray(ids)), self.config.dropout, keys[0])]
        bias = self.bias(mask)
        for layer, layer_key in zip(self.layers, keys[1:], strict=True):
            states.append(layer(states[-1], bias, layer_key))
        return states

    def __call__(self, ids: Ids, mask: Ids, *, key: jax.Array | None = None) -> Float[Array, "b d"]:
        last = self.hidden_states(ids, mask, key=key)[-1].astype(jnp.float32)
        vectors = last[:, 0] if self.config.pooling == "cls" else mean_pool(last, mask)
        return l2_normalized(vectors) if self.config.normalize else vectors


def mean_pool(x: Float[Array, "b t d"], mask: Ids) -> Float[Array, "b d"]:
    """Return the mean of each text's token vectors; zeros for a row that is all padding."""
    weights = mask.astype(x.dtype)[:, :, None]
    return (x * weights).sum(1) / jnp.maximum(weights.sum(1), 1e-9)


def l2_normalized(x: Float[Array, "b d"]) -> Float[Array, "b d"]:
    """Return x / ‖x‖ for each row; for a row of zeros, zeros with a zero gradient.

    It is the last layer of a sentence encoder, which takes ‖x‖ as at least 10⁻¹². `dpp.lengths.unit`
    also scales vectors whose squares overflow or underflow.
    """
    return x * jax.lax.rsqrt(jnp.maximum((x * x).sum(-1, keepdims=True), 1e-24))


def dropout(x: Float[Array, "*s"], rate: float, key: jax.Array | None) -> Float[Array, "*s"]:
    """Zero each entry of x with probability `rate` and divide the others by 1 − rate.

    Without a key, return x.
    """
    if key is None or rate == 0.0:
        return x
    return jnp.where(
        jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), jnp.zeros_like(x)
    )


def relative_buckets(length: int, buckets: int) -> Int[np.ndarray, "t t"]:
    """Return MPNet's bucket of each pair (query position, key position), after T5 (Raffel et al.
    2020, §2.1).

    Half of the buckets, of which there are at least 4, are for keys after the query. In each half,
    the first half of the buckets hold one distance each; the others grow logarithmically up to 128
    tokens, beyond which all share the last bucket.
    """
    offset = np.arange(length)[None, :] - np.arange(length)[:, None]
    half = buckets // 2
    exact = buckets // 4
    distance = np.abs(offset)
    # float32, and in this order: at powers of two the last bit of the logarithm decides the bucket
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
    far = exact + (ratio / np.float32(math.log(128 / exact)) * np.float32(half - exact)).astype(
        np.int32
    )
    bucket = np.where(distance < exact, distance, np.minimum(far, half - 1))
    return (bucket + np.where(offset > 0, half, 0)).astype(np.int32)


_normal = nnx.initializers.normal(0.02)


def _norm(config: TransformerConfig, rngs: nnx.Rngs) -> nnx.LayerNorm:
    # the fast variance E[x²] − E[x]² loses the digits that parity with other implementations needs
    return nnx.LayerNorm(
        config.width, epsilon=config.norm_epsilon, use_fast_variance=False, rngs=rngs
    )


def _split(key: jax.Array | None, count: int) -> list[jax.Array | None]:
    return [None] * count if key is None else list(jax.random.split(key, count))
