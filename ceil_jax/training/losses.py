"""Losses that teach a retriever the LM's preferences. Each is for one instance; `jax.vmap` for a batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

SMALLEST_RANGE = 1e-3
"""Log-probabilities that differ by less, in nats, are not stretched to a range of 1: it would be noise."""


def pairwise_margin_loss(
    log_probs: Float[Array, " m"],
    lm_scores: Float[Array, " m"],
    valid: Bool[Array, " m"] | None = None,
    reduction: str = "pairs",
) -> Float[Array, ""]:
    """Pairwise margin ranking loss of one instance's subsets C (CEIL, Ye et al. 2023, equation 6).

    Σ over pairs with LM score S⁺ > S⁻ of max(0, (log P(S⁻) − log P(S⁺)) / c + γ (rank⁻ − rank⁺)), γ = 1/|C|,
    c = max log P − min log P over C without gradient, rank = number of subsets with a higher LM score.

    The paper sums over pairs; we divide by their number, so that the loss does not grow with |C|². The
    released code takes the mean over pairs for each rank gap and sums these, so that one pair with gap 49
    weighs as much as 49 pairs with gap 1: `reduction="gap_mean"`. It also gives tied scores distinct ranks
    and divides by c = 0 when all log P are equal; here tied scores form no pair in either reduction, and c
    is at least SMALLEST_RANGE. No pair (all scores equal, one valid subset, NaN scores) gives loss 0 and
    gradient 0. Subsets where `valid` is False do not count.

    Raises:
        ValueError: a reduction other than "pairs" and "gap_mean".
    """
    if reduction not in ("pairs", "gap_mean"):
        raise ValueError(f"reduction {reduction!r} must be 'pairs' or 'gap_mean'")
    if valid is None:
        valid = jnp.ones(log_probs.shape, bool)
    log_probs = jnp.where(valid, log_probs, 0)
    highest = jnp.where(valid, log_probs, -jnp.inf).max()
    lowest = jnp.where(valid, log_probs, jnp.inf).min()
    spread = jax.lax.stop_gradient(jnp.maximum(highest - lowest, SMALLEST_RANGE))

    # [i, j]: i is the better subset of the pair, j the worse
    pair = (lm_scores[:, None] > lm_scores[None, :]) & valid[:, None] & valid[None, :]
    rank = pair.sum(axis=0)
    gap = rank[None, :] - rank[:, None]
    size = jnp.maximum(valid.sum(), 1)
    hinge = jax.nn.relu((log_probs[None, :] - log_probs[:, None]) / spread + gap / size)
    hinge = jnp.where(pair, hinge, 0)
    if reduction == "pairs":
        return hinge.sum() / jnp.maximum(pair.sum(), 1)
    count = jnp.zeros(log_probs.size, log_probs.dtype).at[jnp.where(pair, gap, 0)].add(pair)
    return (hinge / jnp.maximum(count, 1)[gap]).sum()


def info_nce_loss(
    scores: Float[Array, " m"],
    lm_scores: Float[Array, " m"] | None = None,
    valid: Bool[Array, " m"] | None = None,
) -> Float[Array, ""]:
    """−log softmax(scores)[positive]: the positive is the subset the LM scores highest (first of ties), all
    others are its negatives; without `lm_scores` the positive is place 0.

    The released code's version fails for batches; append other instances' scores for in-batch negatives.
    Places where `valid` is False do not count.
    """
    if valid is None:
        valid = jnp.ones(scores.shape, bool)
    positive = 0 if lm_scores is None else jnp.argmax(jnp.where(valid, lm_scores, -jnp.inf))
    logits = jnp.where(valid, scores, -jnp.inf)
    return jax.nn.logsumexp(logits) - scores[positive]


def epr_contrastive_loss(
    queries: Float[Array, "b d"],
    positives: Float[Array, "b d"],
    negatives: Float[Array, "b h d"],
    positive_ids: Int[Array, " b"],
    negative_ids: Int[Array, "b h"],
) -> Float[Array, ""]:
    """Mean InfoNCE of a batch with in-batch negatives (EPR, Rubin et al. 2022).

    −log softmax of the raw dot product of a query with its positive, against the positives and hard
    negatives of the whole batch. Unlike in the released code, a context that another row drew and that is
    this row's positive (the same id) is masked, not counted as a negative. The query as it stands in the bank is
    one where another row drew it, as there. Hard negatives with id −1 are empty places.
    """
    b = queries.shape[0]
    contexts = jnp.concatenate([positives, negatives.reshape(-1, negatives.shape[-1])])
    ids = jnp.concatenate([positive_ids, negative_ids.reshape(-1)])
    own = jnp.arange(b)[:, None] == jnp.arange(ids.size)[None, :]
    counted = own | ((ids[None, :] != positive_ids[:, None]) & (ids >= 0)[None, :])
    logits = jnp.where(counted, queries @ contexts.T, -jnp.inf)
    return (jax.nn.logsumexp(logits, axis=1) - jnp.diagonal(logits)).mean()
