"""Losses that teach a retriever the LM's preferences, and the measures of how well it has learnt them.

Every function is for one query; `jax.vmap` lifts it to a batch. CEIL's losses are registered by name, so that
`--ceil.loss NAME` finds them; `register_loss` adds one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.registry import Registry

SMALLEST_RANGE = 0.1
"""Nats: a narrower range of log-probabilities is not stretched to 1, because it would be noise.

It also bounds the gradient: for `reduction="pairs"` its absolute values sum to 2 / SMALLEST_RANGE at most."""


class SetScores(NamedTuple):
    """The candidate sets of one query, as a loss for CEIL sees them."""

    log_probs: Float[Array, " m"]
    """The model's log-probability of each set, up to the query's normaliser."""
    lm_scores: Float[Array, " m"]
    """The LM's score of each set."""
    mask: Bool[Array, " m"]
    """False at places without a set; they must not count."""


@dataclass(frozen=True)
class NoOptions:
    """The options of a loss that has none."""


@dataclass(frozen=True)
class PairwiseOptions:
    """The options of the pairwise margin loss."""

    reduction: Literal["pairs", "gap_mean"] = "pairs"
    """See `pairwise_margin_loss`."""


@dataclass(frozen=True)
class LogisticOptions:
    """The options of the logistic pairwise loss."""

    beta: float = 1.0
    """See `logistic_pairwise_loss`."""


Loss = Callable[[SetScores, Any], Float[Array, ""]]

LOSSES: Registry[tuple[Loss, type]] = Registry("loss", "register_loss adds one.")
"""CEIL's losses, each with the type of its options."""


def register_loss(name: str, loss: Loss, options: type = NoOptions, *, replace: bool = False) -> None:
    """Add a loss for CEIL, which `--ceil.loss NAME` then trains with.

    Args:
        name: the name of the loss.
        loss: (`SetScores` of one query, an instance of `options`) → scalar, in `jax.numpy`; it is vmapped over a
            batch and differentiated with respect to `log_probs`.
        options: a frozen dataclass all of whose fields have defaults. `--ceil.loss-options FIELD=VALUE` sets a field;
            fields may be bool, int, float, str or a Literal of strings.
        replace: whether it takes the place of a loss that has this name; by default that is refused.

    Raises:
        UserError: the name is taken.

    >>> import jax.numpy as jnp
    >>> from ceil_jax import register_loss
    >>> register_loss("listwise", lambda s, _: -jnp.sum(jnp.exp(s.lm_scores) * s.log_probs, where=s.mask))
    """
    LOSSES.register(name, (loss, options), replace=replace)


def ceil_loss(
    name: str, options: Sequence[str] = (), reduction: str = "pairs"
) -> Callable[[SetScores], Array]:
    """Return a registered loss with its options filled in: `SetScores` of one query → scalar.

    Args:
        name: the name of a registered loss.
        options: "FIELD=VALUE" for each option that differs from its default.
        reduction: the value of the field `reduction`, for a loss that has it.

    Raises:
        UserError: an unknown loss or option, or a value of the wrong type.
    """
    loss, kind = LOSSES[name]
    types = get_type_hints(kind)
    fields = {field.name: types[field.name] for field in dataclasses.fields(kind)}
    given: dict[str, Any] = {"reduction": reduction} if "reduction" in fields else {}
    for option in options:
        field, _, value = option.partition("=")
        if field not in fields:
            raise unknown_name(f"option of loss {name}", field, fields, "Give each as FIELD=VALUE.")
        given[field] = _parsed(option, value, fields[field])
    filled = kind(**given)
    return lambda scores: loss(scores, filled)


def _parsed(option: str, value: str, kind: Any) -> Any:
    allowed = get_args(kind) if get_origin(kind) is Literal else ("true", "false") if kind is bool else None
    if allowed is not None:
        if value not in allowed:
            raise UserError(f"--ceil.loss-options {option}: expected one of {', '.join(allowed)}")
        return value == "true" if kind is bool else value
    try:
        return kind(value)
    except ValueError:
        raise UserError(f"--ceil.loss-options {option}: expected {kind.__name__}") from None


def pairwise_margin_loss(
    log_probs: Float[Array, " m"],
    lm_scores: Float[Array, " m"],
    valid: Bool[Array, " m"] | None = None,
    reduction: str = "pairs",
) -> Float[Array, ""]:
    """Pairwise margin ranking loss of one query's sets C (CEIL, Ye et al. 2023, equation 6).

    Σ over pairs with LM score S⁺ > S⁻ of max(0, (log P(S⁻) − log P(S⁺)) / c + γ (rank⁻ − rank⁺)), γ = 1/|C|,
    c = max log P − min log P over C without gradient, rank = number of sets with a higher LM score.

    The paper sums over pairs; we divide by their number, so that the loss does not grow with |C|². The
    released code takes the mean over pairs for each rank gap and sums these, so that one pair with gap 49
    weighs as much as 49 pairs with gap 1: `reduction="gap_mean"`. It also gives tied scores distinct ranks
    and divides by c = 0 when all log P are equal; here tied scores form no pair in either reduction, and c
    is at least SMALLEST_RANGE.

    Args:
        log_probs: the model's log-probability of each set, in nats, up to a constant.
        lm_scores: the LM's score of each set; only their order counts.
        valid: sets that count; all by default.
        reduction: "pairs" (default) or "gap_mean".

    Returns:
        The loss; 0, with gradient 0, where no pair is left (all scores equal, one valid set, NaN scores).

    Raises:
        ValueError: another reduction.
    """
    if reduction not in ("pairs", "gap_mean"):
        raise ValueError(f"reduction {reduction!r} must be 'pairs' or 'gap_mean'")
    if valid is None:
        valid = jnp.ones(log_probs.shape, bool)
    log_probs = jnp.where(valid, log_probs, 0)
    highest = jnp.where(valid, log_probs, -jnp.inf).max()
    lowest = jnp.where(valid, log_probs, jnp.inf).min()
    spread = jax.lax.stop_gradient(jnp.maximum(highest - lowest, SMALLEST_RANGE))

    # [i, j]: i is the better set of the pair, j the worse
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


def logistic_pairwise_loss(
    log_probs: Float[Array, " m"],
    lm_scores: Float[Array, " m"],
    valid: Bool[Array, " m"] | None = None,
    beta: float = 1.0,
) -> Float[Array, ""]:
    """Logistic loss of one query's pairs: mean of −log σ(β (log P(S⁺) − log P(S⁻))) over pairs with LM score S⁺ > S⁻.

    It is DPO's loss (Rafailov et al., 2023) without a reference model.

    Args:
        log_probs: the model's log-probability of each set, in nats, up to a constant.
        lm_scores: the LM's score of each set; only their order counts.
        valid: sets that count; all by default.
        beta: β, per nat; the larger, the sooner a pair counts as ordered.

    Returns:
        The loss; 0, with gradient 0, where no pair is left.
    """
    if valid is None:
        valid = jnp.ones(log_probs.shape, bool)
    log_probs = jnp.where(valid, log_probs, 0)
    # [i, j]: i is the better set of the pair, j the worse
    pair = (lm_scores[:, None] > lm_scores[None, :]) & valid[:, None] & valid[None, :]
    costs = jax.nn.softplus(beta * (log_probs[None, :] - log_probs[:, None]))
    return jnp.where(pair, costs, 0).sum() / jnp.maximum(pair.sum(), 1)


def info_nce_loss(
    scores: Float[Array, " m"],
    lm_scores: Float[Array, " m"] | None = None,
    valid: Bool[Array, " m"] | None = None,
) -> Float[Array, ""]:
    """InfoNCE of one query's sets: −log softmax(scores)[positive] (CEIL, Ye et al. 2023, Table 5).

    Args:
        scores: the model's scores, such as log-probabilities of sets; append other queries' scores for in-batch
            negatives (the released code fails for batches).
        lm_scores: the highest marks the positive, the first of equals; without them the positive is place 0.
        valid: places that count; all by default.
    """
    if valid is None:
        valid = jnp.ones(scores.shape, bool)
    positive = 0 if lm_scores is None else jnp.argmax(jnp.where(valid, lm_scores, -jnp.inf))
    logits = jnp.where(valid, scores, -jnp.inf)
    return jax.nn.logsumexp(logits) - scores[positive]


def _pairwise(scores: SetScores, options: PairwiseOptions) -> Array:
    return pairwise_margin_loss(*scores, reduction=options.reduction)


def _info_nce(scores: SetScores, _: NoOptions) -> Array:
    return info_nce_loss(*scores)


register_loss("pairwise", _pairwise, PairwiseOptions)


def _logistic(scores: SetScores, options: LogisticOptions) -> Array:
    return logistic_pairwise_loss(*scores, beta=options.beta)


register_loss("info_nce", _info_nce)
register_loss("logistic", _logistic, LogisticOptions)


def epr_contrastive_loss(
    queries: Float[Array, "b d"],
    positives: Float[Array, "b d"],
    negatives: Float[Array, "b h d"],
    positive_ids: Int[Array, " b"],
    negative_ids: Int[Array, "b h"],
) -> Float[Array, ""]:
    """Mean InfoNCE of a batch with in-batch negatives (EPR, Rubin et al. 2022).

    −log softmax of the dot product of a query with its positive, against the positives and hard negatives of the
    whole batch. Unlike in the released code, another row's example with the id of this row's positive is masked, not
    counted as a negative. As in the released code, the query's own bank entry is a negative where another row drew
    it.

    Args:
        queries: vectors of the queries.
        positives: the vector of each query's positive.
        negatives: the vectors of each query's h hard negatives.
        positive_ids: a number that identifies each positive; equal numbers are never each other's negatives.
        negative_ids: the same for hard negatives; −1 marks an empty place.
    """
    b = queries.shape[0]
    contexts = jnp.concatenate([positives, negatives.reshape(-1, negatives.shape[-1])])
    ids = jnp.concatenate([positive_ids, negative_ids.reshape(-1)])
    own = jnp.arange(b)[:, None] == jnp.arange(ids.size)[None, :]
    counted = own | ((ids[None, :] != positive_ids[:, None]) & (ids >= 0)[None, :])
    logits = jnp.where(counted, queries @ contexts.T, -jnp.inf)
    return (jax.nn.logsumexp(logits, axis=1) - jnp.diagonal(logits)).mean()


def ranking_quality(
    log_probs: Float[np.ndarray, "q m"], lm_scores: Float[np.ndarray, "q m"]
) -> dict[str, Float[np.ndarray, " q"]]:
    """Return how well the model's scores order each query's sets as the LM does: for every query Kendall's τ and
    `pairwise_ranking_accuracy`."""
    ours, lm = jnp.asarray(log_probs), jnp.asarray(lm_scores, log_probs.dtype)
    tau, accuracy = jax.vmap(kendall_tau)(ours, lm), jax.vmap(pairwise_ranking_accuracy)(ours, lm)
    return {"kendall_tau": np.asarray(tau), "pairwise_accuracy": np.asarray(accuracy)}


def pairwise_ranking_accuracy(
    log_probs: Float[Array, " m"], lm_scores: Float[Array, " m"], valid: Bool[Array, " m"] | None = None
) -> Float[Array, ""]:
    """Share of the pairs with different LM scores that `log_probs` orders alike.

    Equal log-probabilities count 1/2; so does a query without such a pair, which is chance.
    """
    concordant, scored, _ = _pair_sums(log_probs, lm_scores, valid)
    return 0.5 + 0.5 * concordant / jnp.maximum(scored, 1)


def kendall_tau(
    log_probs: Float[Array, " m"], lm_scores: Float[Array, " m"], valid: Bool[Array, " m"] | None = None
) -> Float[Array, ""]:
    """Kendall's τ_b = (concordant − discordant) / √(pairs untied in one × pairs untied in the other).

    Return 0 when either side is all ties.
    """
    concordant, scored, ordered = _pair_sums(log_probs, lm_scores, valid)
    return concordant / jnp.sqrt(jnp.maximum(scored * ordered, 1))


def _pair_sums(log_probs: Array, lm_scores: Array, valid: Array | None) -> tuple[Array, Array, Array]:
    """Concordant less discordant pairs, pairs untied in `lm_scores`, pairs untied in `log_probs`; each counted
    twice."""
    if valid is None:
        valid = jnp.ones(log_probs.shape, bool)
    both = valid[:, None] & valid[None, :]
    by_lm = jnp.where(both, jnp.sign(lm_scores[:, None] - lm_scores[None, :]), 0)
    by_model = jnp.where(both, jnp.sign(log_probs[:, None] - log_probs[None, :]), 0)
    return (by_lm * by_model).sum(), jnp.abs(by_lm).sum(), jnp.abs(by_model).sum()
