"""Skill-KNN's similarities of inputs with m skills each.

e_i(x) is the embedding of the i-th skill of x.

    base               cos(e_1(x), e_1(a))
    consistency        cos(Σ_i e_i(x) / m, Σ_j e_j(a) / m)
    distinctiveness    max_ij cos(e_i(x), e_j(a))

They are from An et al. (2023, section 3). With one skill each, all are equal.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ceil_jax.dpp.lengths import unit

Similarity = Callable[[Float[Array, "q m d"], Float[Array, "n m d"]], Float[Array, "q n"]]


@jax.jit
def base(queries: Float[Array, "q m d"], items: Float[Array, "n m d"]) -> Float[Array, "q n"]:
    """Return the cosine of the first skills."""
    return consistency(queries[:, :1], items[:, :1])


@jax.jit
def consistency(
    queries: Float[Array, "q m d"], items: Float[Array, "n m d"]
) -> Float[Array, "q n"]:
    """Return the cosine of the mean embeddings."""
    return jnp.matmul(unit(queries.mean(axis=1)), unit(items.mean(axis=1)).T, precision="highest")


@jax.jit
def distinctiveness(
    queries: Float[Array, "q m d"], items: Float[Array, "n m d"]
) -> Float[Array, "q n"]:
    """Return the largest cosine of any two skills.

    Pairs are compared one by one, so memory is q × n for any m.
    """
    m = queries.shape[1]
    queries = unit(queries)
    items = jnp.moveaxis(unit(items), 1, 0)

    def step(best: Float[Array, "q n"], pair: Int[Array, ""]) -> tuple[Float[Array, "q n"], None]:
        new = jnp.matmul(queries[:, pair % m], items[pair // m].T, precision="highest")
        return jnp.maximum(best, new), None

    start = jnp.full((queries.shape[0], items.shape[1]), -jnp.inf, queries.dtype)
    best, _ = jax.lax.scan(step, start, jnp.arange(m * items.shape[0]))
    return best
