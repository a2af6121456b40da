"""Query and items → the DPP kernel conditioned on the query.

L' = Diag(exp(r / 2λ)) · S · Diag(exp(r / 2λ))   (CEIL, Ye et al. 2023, section 3.1)

with relevance r_i of item i to the query, similarity S_ij between items, and trade-off λ.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ceil_jax.errors import unknown_name

SIMILARITIES = ("shifted", "dot", "cosine")
"""How vectors become similarities: (1 + cos) / 2, the dot product, the cosine.

The paper has a linear kernel, the released code (1 + cos) / 2; we default to the latter: positive
semi-definite, within [0, 1], diagonal 1, so never singular by scale.
"""

Scalar = float | Float[Array, ""]


def similarity_from_features(
    features: Float[Array, "*b n d"], kind: str = "shifted"
) -> Float[Array, "*b n n"]:
    """S_ij of every two items; `kind` is one of SIMILARITIES."""
    norms = norm(features, kind)
    dots = jnp.einsum("...id,...jd->...ij", features, features, precision="highest")
    return from_dot_products(dots, norms[..., :, None] * norms[..., None, :], kind)


def relevance(
    query: Float[Array, "*b d"],
    items: Float[Array, "*b n d"],
    kind: str = "shifted",
    valid: Bool[Array, "*b n"] | None = None,
) -> Float[Array, "*b n"]:
    """r_i − max_j r_j over the valid items, with r_i the similarity of item i to the query.

    The maximum is subtracted as in the released code: it keeps exp(r / 2λ) at or below 1 and shifts every
    log det of one size by the same amount.
    """
    dots = jnp.einsum("...d,...nd->...n", query, items, precision="highest")
    r = from_dot_products(dots, norm(query, kind)[..., None] * norm(items, kind), kind)
    counted = r if valid is None else jnp.where(valid, r, -jnp.inf)
    highest = jax.lax.stop_gradient(counted.max(axis=-1, keepdims=True))
    return r - jnp.where(jnp.isfinite(highest), highest, 0)


def conditional_kernel(
    relevance: Float[Array, "*b n"], similarity: Float[Array, "*b n n"], trade_off: Scalar
) -> Float[Array, "*b n n"]:
    """L'_ij = exp(r_i / 2λ) S_ij exp(r_j / 2λ): a small λ weighs relevance, a large one diversity.

    In float32 it has to be from `relevance`, whose maximum is 0: above 88 λ the kernel overflows. Below −87 λ an
    item's diagonal underflows to 0, and `greedy_map` never chooses it. `greedy_map_from_features` and
    `dpp.subset_log_probs` work with r / λ itself and lose nothing.
    """
    log_root_quality = relevance / (2 * trade_off)
    return jnp.exp(log_root_quality[..., :, None] + log_root_quality[..., None, :]) * similarity


def block_log_dets(
    features: Float[Array, "n d"], subsets: Int[Array, "m k"], kind: str = "shifted"
) -> Float[Array, " m"]:
    """log det S_S of each subset (−1 = empty place), from its own k×k block.

    Where the subsets hold more items in all than there are, the blocks are taken from S, which spares a copy of the
    subsets' features, most of the memory and time of a training step; else they are formed one by one.

    Differentiable in the features; see `log_det` for subsets that hold an item twice.
    """
    places = jnp.maximum(subsets, 0)
    if len(features) < subsets.size:
        blocks = similarity_from_features(features, kind)[places[:, :, None], places[:, None, :]]
    else:
        blocks = similarity_from_features(features[places], kind)
    return log_det(blocks, subsets >= 0)


def log_det(matrix: Float[Array, "*b k k"], valid: Bool[Array, "*b k"] | None = None) -> Float[Array, " *b"]:
    """log det of positive semi-definite matrices: finite, with finite gradients, for singular ones too.

    Written as Σ log A_ii + log det C with the correlations C_ij = A_ij / √(A_ii A_jj), so that rows of any
    scale (small trade-offs) cost no accuracy. The off-diagonal of C is shrunk by 1 − ε, ε = 64 × the
    dtype's machine epsilon (7.6e-6 in float32): this lifts every eigenvalue to about ε or more, above what
    rounding does to a Cholesky factorisation. A duplicated item then gives log 2ε instead of NaN, with
    gradients below 1/ε, while the log det of a well conditioned block moves by no more than its rounding.
    Rows and columns where `valid` is False are left out.
    """
    k = matrix.shape[-1]
    tiny = jnp.finfo(matrix.dtype).tiny
    eye = jnp.eye(k, dtype=bool)
    if valid is not None:
        both = valid[..., :, None] & valid[..., None, :]
        matrix = jnp.where(both, matrix, eye.astype(matrix.dtype))
    scale = jnp.maximum(jnp.diagonal(matrix, axis1=-2, axis2=-1), tiny)
    root = jnp.sqrt(scale)
    correlation = matrix / root[..., :, None] / root[..., None, :]
    shrunk = correlation * (1 - 64 * jnp.finfo(matrix.dtype).eps)
    factor = jnp.linalg.cholesky(jnp.where(eye, jnp.ones((), matrix.dtype), shrunk))
    return jnp.log(scale).sum(-1) + 2 * jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)


def norm(vectors: Float[Array, "*b d"], kind: str) -> Float[Array, "*b"]:
    """What dot products are divided by: the vectors' lengths, or 1 where the dot product itself counts."""
    if kind not in SIMILARITIES:
        raise unknown_name("similarity", kind, SIMILARITIES)
    if kind == "dot":
        return jnp.ones(vectors.shape[:-1], vectors.dtype)
    # zero vectors are orthogonal to all; with a smaller floor the gradient there would overflow
    return jnp.sqrt(jnp.maximum(jnp.sum(vectors * vectors, axis=-1), 1e-12))


def from_dot_products(dots: Float[Array, "*b"], norms: Float[Array, "*b"], kind: str) -> Float[Array, "*b"]:
    """Similarities of pairs of vectors, given the products of their `norm`s. Dividing here, and not the
    vectors, spares a copy of the features."""
    similarity = dots / norms
    return (1 + similarity) / 2 if kind == "shifted" else similarity
