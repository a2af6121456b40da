"""Log-probabilities of subsets under a determinantal point process, and exact samples.

P(S) = det(L_S) / det(L + I)   (Kulesza & Taskar 2012, section 2.2)

A subset is a row of item indices; −1 marks an empty position.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ceil_jax.dpp.kernel import Scalar, at_least_float32, bounded_trade_off, log_det


def subset_log_det(kernel: Float[Array, "n n"], subset: Int[Array, " k"]) -> Float[Array, ""]:
    """Return log det L_S for a positive semi-definite L.

    A subset's log-probability, up to `log_normalizer`.

    It is 0 for the empty subset, and finite for a subset with a repeated item (see
    `kernel.log_det`).

    >>> import jax.numpy as jnp
    >>> round(float(subset_log_det(jnp.diag(jnp.array([2.0, 3.0, 4.0])), jnp.array([0, 2, -1]))), 4)  # log 8
    2.0794
    """
    positions = jnp.maximum(subset, 0)
    return log_det(kernel[positions[:, None], positions[None, :]], subset >= 0)


def log_normalizer(kernel: Float[Array, "n n"]) -> Float[Array, ""]:
    """Return log det(L + I) for a positive semi-definite L.

    The log of Σ_S det L_S over all subsets S.

    >>> import jax.numpy as jnp
    >>> round(float(log_normalizer(jnp.diag(jnp.array([1.0, 3.0])))), 4)  # log (2 · 4)
    2.0794
    """
    return log_det(kernel + jnp.eye(kernel.shape[0], dtype=kernel.dtype))


def subset_log_probs(
    relevance: Float[Array, " n"],
    block_log_dets: Float[Array, " m"],
    subsets: Int[Array, "m k"],
    trade_off: Scalar,
) -> Float[Array, " m"]:
    """Return log det L'_S of each subset: log P(S), up to the shared normaliser.

    log det L'_S = (1/λ) Σ_{i ∈ S} r_i + log det S_S.

    Only k × k blocks are needed (the released code builds a matrix [B, U, U] over all items of the
    batch), and no exponential is taken, so any λ is safe.

    Args:
        relevance: r, from `kernel.relevance`.
        block_log_dets: log det S_S of each subset, from `kernel.block_log_dets`.
        subsets: item indices; −1 at empty positions, which contribute nothing.
        trade_off: λ, above 0.

    Raises:
        ValueError: see `kernel.bounded_trade_off`.

    >>> import jax.numpy as jnp
    >>> r = jnp.array([0.0, -0.1, -0.2])
    >>> subset_log_probs(r, jnp.zeros(2), jnp.array([[0, 1], [2, -1]]), trade_off=0.1).round(3).tolist()
    [-1.0, -2.0]
    """
    chosen = jnp.where(subsets >= 0, relevance[jnp.maximum(subsets, 0)], 0)
    return chosen.sum(axis=-1) / bounded_trade_off(trade_off) + block_log_dets


@jax.jit
def sample_dpp(key: PRNGKeyArray, kernel: Float[Array, "n n"]) -> Int[Array, " n"]:
    """Draw one sample from P(S) ∝ det L_S over all subsets (Hough et al. 2006).

    L is positive semi-definite.

    Eigenvector j takes part with probability λ_j / (1 + λ_j). The result holds the items in the
    order drawn, then −1 (int32).

    >>> import jax
    >>> import jax.numpy as jnp
    >>> sorted(sample_dpp(jax.random.key(0), jnp.diag(jnp.array([1e6, 0.0, 1e6]))).tolist())
    [-1, 0, 2]
    """
    key_vectors, key_items = jax.random.split(key)
    values, vectors = _eigh(kernel)
    chosen = jax.random.uniform(key_vectors, values.shape, values.dtype) * (1 + values) < values
    return _sample_projection(key_items, vectors, chosen, kernel.shape[0])


@partial(jax.jit, static_argnames="k")
def sample_k_dpp(key: PRNGKeyArray, kernel: Float[Array, "n n"], k: int) -> Int[Array, " k"]:
    """Draw one sample from P(S) ∝ det L_S over subsets of size k.

    Kulesza & Taskar (2012), algorithm 8.

    The elementary symmetric polynomials are computed in log space, so the kernel's scale does not
    matter. Eigenvalues below n ε times the largest count as 0 (1e-5 for 100 items in float32). The
    result holds the items in the order drawn (int32). If the rank of the kernel is below k, there
    is not a subset of size k; the sample then has as many items as the rank, followed by −1.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> sorted(sample_k_dpp(jax.random.key(0), jnp.ones((3, 3)) + jnp.diag(jnp.array([9.0, 9.0, 0.0])), k=3).tolist())
    [0, 1, 2]
    """
    key_vectors, key_items = jax.random.split(key)
    kernel = at_least_float32(kernel)
    largest = jnp.diagonal(kernel).max(initial=0)
    values, vectors = _eigh(kernel / jnp.maximum(largest, jnp.finfo(kernel.dtype).tiny))
    chosen = _sample_eigenvectors(key_vectors, values, k)
    return _sample_projection(key_items, vectors, chosen, k)


def log_elementary_symmetric(log_values: Float[Array, " n"], k: int) -> Float[Array, "m l"]:
    """Return the logs of the elementary symmetric polynomials.

    By e_l(v_1 … v_i) = e_l(… v_{i−1}) + v_i e_{l−1}(… v_{i−1}).

    Row i, column l of the result, [n + 1, k + 1], holds log e_l(v_1 … v_i).
    """

    def step(log_e: Array, log_value: Array) -> tuple[Array, Array]:
        log_e = log_e.at[1:].set(jnp.logaddexp(log_e[1:], log_value + log_e[:-1]))
        return log_e, log_e

    start = jnp.full(k + 1, -jnp.inf, log_values.dtype).at[0].set(0)
    _, rows = jax.lax.scan(step, start, log_values)
    return jnp.concatenate([start[None], rows])


def _eigh(kernel: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """Eigenvalues and eigenvectors (as columns); eigenvalues within rounding error are set to 0."""
    values, vectors = jnp.linalg.eigh(at_least_float32(kernel))
    floor = kernel.shape[0] * jnp.finfo(values.dtype).eps * jnp.abs(values).max(initial=0)
    return jnp.where(values > floor, values, 0), vectors


def _sample_eigenvectors(
    key: PRNGKeyArray, values: Float[Array, " n"], k: int
) -> Bool[Array, " n"]:
    """Return a sample of at most k eigenvectors, with P(J) ∝ Π_{j ∈ J} λ_j.

    There are fewer if fewer eigenvalues are positive.
    """
    log_values = jnp.log(values)
    log_e = log_elementary_symmetric(log_values, k)
    log_uniform = jnp.log(jax.random.uniform(key, values.shape, values.dtype))

    def step(remaining: Array, item: tuple[Array, ...]) -> tuple[Array, Array]:
        log_value, log_e_before, log_e_here, log_u = item
        is_chosen = (remaining > 0) & (
            log_u + log_e_here[remaining] < log_value + log_e_before[remaining - 1]
        )
        return remaining - is_chosen, is_chosen

    size = jnp.minimum(k, jnp.count_nonzero(values))
    _, chosen = jax.lax.scan(
        step, size, (log_values, log_e[:-1], log_e[1:], log_uniform), reverse=True
    )
    return chosen


def _sample_projection(
    key: PRNGKeyArray, vectors: Float[Array, "n n"], chosen: Bool[Array, " n"], k: int
) -> Int[Array, " k"]:
    """Return one sample from the projection DPP K = V Vᵀ, with −1 after the last item.

    V are the chosen columns (at most k).

    The chain rule of a projection DPP is greedy MAP's incremental Cholesky factorisation with a
    random draw in place of the argmax: P(next = i) ∝ det K_{S ∪ i} / det K_S.
    """
    if not min(k, chosen.size):
        return jnp.full(k, -1, jnp.int32)
    # the chosen columns first, in order: `top_k` keeps the order of equal values and sorts only k
    _, columns = jax.lax.top_k(chosen.astype(vectors.dtype), min(k, chosen.size))
    V = jnp.where(chosen[columns][None, :], vectors[:, columns], 0)
    size = chosen.sum()
    product = partial(jnp.matmul, precision="highest")

    def step(
        state: tuple[Array, Array], draw: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], Array]:
        # residual: K_ii given the items drawn so far, 0 for these; factor: rows of the incremental
        # Cholesky factor of K
        residual, factor = state
        t, uniform = draw
        item = _draw(uniform, residual)
        row = (product(V, V[item]) - product(factor[:, item], factor)) * jax.lax.rsqrt(
            residual[item]
        )
        row = jnp.where(t < size, row, 0)
        residual = jnp.maximum(residual - row * row, 0).at[item].set(0)
        return (residual, factor.at[t].set(row)), jnp.where(t < size, item, -1).astype(jnp.int32)

    start = jnp.sum(V * V, axis=1), jnp.zeros((columns.size, V.shape[0]), V.dtype)
    steps = jnp.arange(columns.size)
    _, items = jax.lax.scan(step, start, (steps, jax.random.uniform(key, steps.shape, V.dtype)))
    return jnp.pad(items, (0, k - columns.size), constant_values=-1)


def _draw(uniform: Float[Array, ""], weights: Float[Array, " n"]) -> Int[Array, ""]:
    """Draw an index with probability proportional to its weight.

    An index of weight 0 is never drawn if another weight is positive.

    It is the index whose interval of [0, Σ weights) contains uniform · Σ weights. This needs one
    random number; `jax.random.categorical` needs n and their logarithms.
    """
    n = weights.size
    # lifted over samples, a matrix product is faster than a cumulative sum
    sums = jnp.matmul(weights, jnp.triu(jnp.ones((n, n), weights.dtype)), precision="highest")
    reached = (sums > uniform * sums[-1]) & (weights > 0)
    return jnp.where(reached.any(), jnp.argmax(reached), jnp.argmax(weights))
