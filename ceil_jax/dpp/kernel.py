"""The DPP kernel conditioned on a query.

L' = Diag(exp(r / 2λ)) · S · Diag(exp(r / 2λ))   (CEIL, Ye et al. 2023, section 3.1)

with the relevance r_i of item i to the query, the similarity S_ij of items i and j, and the
trade-off λ.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ceil_jax.dpp.lengths import norm, of_moderate_length

Scalar = int | float | Float[Array, ""]


def at_least_float32(array: Any) -> Array:
    """Return the array in float32, or unchanged if it is float64.

    In half precision two different items may look equal.
    """
    return jnp.asarray(array, jnp.promote_types(jnp.result_type(array), jnp.float32))


SMALLEST_TRADE_OFF = 1e-30
"""Smaller values of λ are raised to this. The sets stay the same, because r / λ outweighs every log
d² long before; below 3e-39, r / λ would overflow float32."""


def bounded_trade_off(trade_off: Any) -> Any:
    """Return λ, raised to at least `SMALLEST_TRADE_OFF`.

    Raises:
        ValueError: λ is not above 0. Inside `jax.jit`, where its value is unknown, it is not
            checked.
    """
    if isinstance(trade_off, jax.core.Tracer):
        return jnp.maximum(trade_off, SMALLEST_TRADE_OFF)
    if not trade_off > 0:
        raise ValueError(f"trade_off is {trade_off}; λ has to be above 0")
    if isinstance(trade_off, jax.Array):
        return jnp.maximum(trade_off, SMALLEST_TRADE_OFF)
    return max(trade_off, SMALLEST_TRADE_OFF)


def similarity(dots: Any, norms: Any = 1.0) -> Any:
    """Return the similarity (1 + cos) / 2 of pairs of vectors, given their dot products.

    The paper has a linear kernel; this is the released code's: positive semi-definite, within [0,
    1], with a diagonal of 1.

    Args:
        dots: dot products of the pairs, a float or an array of jax or numpy of any shape.
        norms: product of the two norms of each pair; 1 (the default) for unit vectors.
    """
    # dividing here and not in the vectors saves a copy of the features
    return (1 + dots / norms) / 2


def rescaled(cosines: Any, origin: float) -> Any:
    """Return cosines on a scale on which `origin` is 0, and 1 stays 1: (cos − origin) / (1 − origin).

    Some encoders give unrelated texts cosines of 0.7. With the mean cosine of a bank as origin, λ
    and other limits mean the same for every encoder: v ↦ (√a, √(1−a) v), which takes each cosine c
    to a + (1 − a) c, changes no rescaled cosine.

    Args:
        cosines: a float or an array of jax or numpy of any shape.
        origin: the cosine of unrelated texts, below 1; 0 changes nothing.
    """
    return (cosines - origin) / (1 - origin)


def similarity_from_features(features: Float[Array, "*b n d"]) -> Float[Array, "*b n n"]:
    """Return the similarity matrix S of the items, (1 + cos) / 2; the vectors may have any length.

    `conditional_kernel` and `greedy_map` accept any other positive semi-definite matrix as well.

    >>> import jax.numpy as jnp
    >>> similarity_from_features(jnp.array([[2.0, 0.0], [0.0, 3.0]])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    features = of_moderate_length(at_least_float32(features))
    norms = norm(features)
    dots = jnp.einsum("...id,...jd->...ij", features, features, precision="highest")
    return similarity(dots, norms[..., :, None] * norms[..., None, :])


def relevance(
    query: Float[Array, "*b d"],
    items: Float[Array, "*b n d"],
    valid: Bool[Array, "*b n"] | None = None,
    *,
    unit_items: bool = False,
) -> Float[Array, "*b n"]:
    """Return the relevance r of the items to the query.

    Their similarity to it minus the largest similarity among the valid items, so that the most
    relevant one has 0.

    The maximum is subtracted as in the released code: this keeps exp(r / 2λ) at or below 1, and
    shifts the log det of all sets of one size by the same amount.

    Args:
        query: its vector, of any length.
        items: the items' vectors, of any length.
        valid: the items among which the maximum is taken; all by default.
        unit_items: True if the items already have length 1 (or 0). They are then not scaled again,
            which takes half of the time if there are many. False by default.

    >>> import jax.numpy as jnp
    >>> relevance(jnp.array([1.0, 0.0]), jnp.array([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])).tolist()
    [0.0, -0.5, -1.0]
    """
    query = of_moderate_length(at_least_float32(query))
    items = at_least_float32(items)
    norms = norm(query)[..., None]
    if not unit_items:
        items = of_moderate_length(items)
        norms = norms * norm(items)
    dots = jnp.einsum("...d,...nd->...n", query, items, precision="highest")
    r = similarity(dots, norms)
    counted = r if valid is None else jnp.where(valid, r, -jnp.inf)
    highest = jax.lax.stop_gradient(counted.max(axis=-1, keepdims=True))
    return r - jnp.where(jnp.isfinite(highest), highest, 0)


def conditional_kernel(
    relevance: Float[Array, "*b n"], similarity: Float[Array, "*b n n"], trade_off: Scalar
) -> Float[Array, "*b n n"]:
    """Return the conditional kernel L'_ij = exp(r_i / 2λ) S_ij exp(r_j / 2λ) (CEIL, section 3.1).

    Args:
        relevance: r. In float32 its maximum should be 0, as `kernel.relevance` returns it: the
            kernel overflows if r is above 88 λ. If r is below −87 λ, the item's diagonal underflows
            to 0 and `greedy_map` never chooses it; `greedy_map_from_features` and
            `distribution.subset_log_probs` work with r / λ itself.
        similarity: S.
        trade_off: λ, above 0; a small λ favours relevance, a large one diversity.

    Raises:
        ValueError: see `bounded_trade_off`.

    >>> import jax.numpy as jnp, numpy as np
    >>> L = conditional_kernel(jnp.array([0.0, -0.2]), jnp.array([[1.0, 0.5], [0.5, 1.0]]), trade_off=0.1)
    >>> print(np.asarray(L).round(3))  # exp(−1) / 2 = 0.184 and exp(−2) = 0.135
    [[1.    0.184]
     [0.184 0.135]]
    """
    log_root_quality = relevance / (2 * bounded_trade_off(trade_off))
    return jnp.exp(log_root_quality[..., :, None] + log_root_quality[..., None, :]) * similarity


def block_log_dets(features: Float[Array, "n d"], subsets: Int[Array, "m k"]) -> Float[Array, " m"]:
    """Return, for each subset, the log determinant of its own k × k block of the similarity matrix.

    Differentiable in the features.

    If the subsets together have more than n items, the blocks are taken from the n × n matrix,
    which saves a copy of the subsets' features; otherwise they are formed one by one. −1 marks an
    empty position of a subset.
    """
    positions = jnp.maximum(subsets, 0)
    if len(features) < subsets.size:
        blocks = similarity_from_features(features)[positions[:, :, None], positions[:, None, :]]
    else:
        blocks = similarity_from_features(features[positions])
    return log_det(blocks, subsets >= 0)


def log_det(
    matrix: Float[Array, "*b k k"], valid: Bool[Array, "*b k"] | None = None
) -> Float[Array, " *b"]:
    """Return log det of positive semi-definite matrices.

    Finite, with finite gradients, even for singular ones.

    It is computed as Σ log A_ii + log det C with the correlations C_ij = A_ij / √(A_ii A_jj), so
    that rows of very different scale (from a small λ) cost no accuracy. The off-diagonal of C is
    multiplied by 1 − ε, where ε is 64 times the dtype's machine epsilon (7.6e-6 in float32). A
    duplicated item then gives log 2ε instead of NaN, with gradients below 1/ε, and the log det of a
    well-conditioned block changes by no more than rounding. Only valid rows and columns count (all
    by default); if none is valid, the result is 0.
    """
    k = matrix.shape[-1]
    matrix = at_least_float32(matrix)
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
