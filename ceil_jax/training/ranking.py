"""How well log-probabilities order an instance's subsets as the LM does: training's held-out quality."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def pairwise_ranking_accuracy(
    log_probs: Float[Array, " m"], lm_scores: Float[Array, " m"], valid: Bool[Array, " m"] | None = None
) -> Float[Array, ""]:
    """Share of the pairs with different LM scores that `log_probs` orders alike.

    Equal log-probabilities count 1/2; so does an instance without such a pair: chance.
    """
    concordant, scored, _ = _pair_sums(log_probs, lm_scores, valid)
    return 0.5 + 0.5 * concordant / jnp.maximum(scored, 1)


def kendall_tau(
    log_probs: Float[Array, " m"], lm_scores: Float[Array, " m"], valid: Bool[Array, " m"] | None = None
) -> Float[Array, ""]:
    """Kendall's τ_b = (concordant − discordant) / √(pairs untied in one × pairs untied in the other).

    0 when either side is all ties.
    """
    concordant, scored, ordered = _pair_sums(log_probs, lm_scores, valid)
    return concordant / jnp.sqrt(jnp.maximum(scored * ordered, 1))


def _pair_sums(log_probs: Array, lm_scores: Array, valid: Array | None) -> tuple[Array, Array, Array]:
    """Concordant less discordant pairs, pairs untied in `lm_scores`, in `log_probs`; each counted twice."""
    if valid is None:
        valid = jnp.ones(log_probs.shape, bool)
    both = valid[:, None] & valid[None, :]
    by_lm = jnp.where(both, jnp.sign(lm_scores[:, None] - lm_scores[None, :]), 0)
    by_model = jnp.where(both, jnp.sign(log_probs[:, None] - log_probs[None, :]), 0)
    return (by_lm * by_model).sum(), jnp.abs(by_lm).sum(), jnp.abs(by_model).sum()
