"""Losses that train a retriever to rank as the LM does, and measures of how well it does so.

A loss of `SetScores` is for one query; `jax.vmap` lifts it to a batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.registry import Registry

SMALLEST_RANGE = 0.1
"""The smallest range of log-probabilities, in nats, that is stretched to 1; a narrower range is
noise. The absolute values of the gradient therefore sum to at most 2 / SMALLEST_RANGE."""


class SetScores(NamedTuple):
    """The candidate sets of one query, as input of a loss for CEIL.

    Examples:
        >>> log_probs = jnp.log(jnp.array([0.5, 0.25, 0.25]))
        >>> sets = SetScores(log_probs, jnp.array([-1.0, -2.0, -3.0]), jnp.array([True, True, True]))
        >>> bool(jnp.isclose(info_nce_loss(sets), jnp.log(2)))
        True
    """

    log_probs: Float[Array, " m"]
    """The model's log-probability of each set, up to the query's normaliser."""
    lm_scores: Float[Array, " m"]
    mask: Bool[Array, " m"]
    """False at positions without a set, which must not count."""


Loss = Callable[..., Float[Array, ""]]

LOSSES: Registry[Loss] = Registry("loss", "register_loss adds one.")


def register_loss(name: str, loss: Loss, *, replace: bool = False) -> None:
    """Add a loss for CEIL, which is then used by `--ceil.loss NAME`.

    Args:
        name: the name of the loss.
        loss: `SetScores` of one query → scalar, in `jax.numpy`; it is vmapped over a batch and
            differentiated with respect to `log_probs`. Its other arguments, all with defaults, are
            options that are set by `--ceil.loss-options NAME=VALUE`: bool, int, float, str or a
            Literal of strings, by annotation or default.
        replace: whether a loss of the same name is replaced; refused by default.

    Raises:
        UserError: the name is taken.

    >>> import jax.numpy as jnp
    >>> from ceil_jax import register_loss
    >>> register_loss("listwise", lambda s: -jnp.sum(jnp.exp(s.lm_scores) * s.log_probs, where=s.mask))
    """
    LOSSES.register(name, loss, replace=replace)


def ceil_loss(
    name: str, options: Sequence[str] = (), flag: str = "--ceil.loss-options"
) -> Callable[[SetScores], Array]:
    """Return a registered loss with its options set.

    It is a function from the `SetScores` of one query to a scalar.

    Args:
        name: the name of the loss.
        options: options of the loss, each as "NAME=VALUE"; others have their defaults.
        flag: the flag of the options, for messages.

    Raises:
        UserError: an unknown loss or option, or a value of the wrong type. The returned function
            raises one if the loss does not return a scalar.
    """
    loss = LOSSES[name]
    values = {}
    _, *parameters = inspect.signature(loss, eval_str=True).parameters.values()
    known = {parameter.name: parameter for parameter in parameters}
    for option in options:
        field, _, value = option.partition("=")
        if field not in known:
            raise unknown_name(f"option of loss {name}", field, known, "Give each as NAME=VALUE.")
        values[field] = _parsed(f"{flag} {option}", value, known[field])

    def one_number(scores: SetScores) -> Array:
        value = loss(scores, **values)
        if value is None or jnp.shape(value) != ():
            raise UserError(
                f"loss {name!r} returned {value!r:.80}; expected one number for the sets of a query"
            )
        return value

    return one_number


def _parsed(option: str, value: str, parameter: inspect.Parameter) -> Any:
    kind: Any = parameter.annotation
    if kind is parameter.empty:
        kind = type(parameter.default)
    allowed: tuple[str, ...] = ()
    if kind is bool:
        allowed = ("true", "false")
    elif get_origin(kind) is Literal:
        allowed = get_args(kind)
    if allowed and value not in allowed:
        raise UserError(f"{option}: expected one of {', '.join(allowed)}")
    if kind is bool:
        return value == "true"
    if allowed:
        return value
    try:
        return kind(value)
    except ValueError:
        raise UserError(f"{option}: expected {kind.__name__}") from None


def pairwise_margin_loss(
    scores: SetScores, reduction: Literal["pairs", "gap_mean"] = "pairs"
) -> Float[Array, ""]:
    """Return the pairwise margin ranking loss of one query's sets C (CEIL, Ye et al. 2023, equation
    6).

    It is Σ max(0, (log P(S⁻) − log P(S⁺)) / c + γ (rank⁻ − rank⁺)) over pairs in which S⁺ has a
    higher LM score than S⁻. Here γ = 1/|C|, c = max log P − min log P over C without gradient, and
    the rank of a set is the number of sets with a higher LM score.

    The paper sums over pairs; we divide by their number, so that the loss does not grow with |C|².
    The released code sums the means over the pairs of each rank gap: `reduction="gap_mean"`. It
    also gives tied scores distinct ranks and divides by c = 0 when all log P are equal; here tied
    scores form no pair, and c is at least SMALLEST_RANGE.

    Args:
        scores: log-probabilities in nats and LM scores of the sets C. Of the LM scores only the
            order matters.
        reduction: "pairs" (default) or "gap_mean".

    Returns:
        The loss; 0, with gradient 0, if there is no pair (all scores equal, one valid set, NaN
            scores).

    Raises:
        ValueError: another reduction.
    """
    if reduction not in ("pairs", "gap_mean"):
        raise ValueError(f"reduction {reduction!r} must be 'pairs' or 'gap_mean'")
    log_probs, pair = _pairs(scores)  # pair[i, j]: S⁺ is set i, S⁻ is set j
    highest = jnp.where(scores.mask, log_probs, -jnp.inf).max()
    lowest = jnp.where(scores.mask, log_probs, jnp.inf).min()
    spread = jax.lax.stop_gradient(jnp.maximum(highest - lowest, SMALLEST_RANGE))
    rank = pair.sum(axis=0)
    gap = rank[None, :] - rank[:, None]
    size = jnp.maximum(scores.mask.sum(), 1)
    hinge = jax.nn.relu((log_probs[None, :] - log_probs[:, None]) / spread + gap / size)
    hinge = jnp.where(pair, hinge, 0)
    if reduction == "pairs":
        return hinge.sum() / jnp.maximum(pair.sum(), 1)
    # the sum of means over the pairs of each rank gap: every pair is divided by their number
    pairs_of_gap = jnp.zeros(log_probs.size, log_probs.dtype)
    pairs_of_gap = pairs_of_gap.at[jnp.where(pair, gap, 0)].add(pair)
    return (hinge / jnp.maximum(pairs_of_gap, 1)[gap]).sum()


def logistic_pairwise_loss(scores: SetScores, beta: float = 1.0) -> Float[Array, ""]:
    """Return the logistic loss of one query's pairs.

    It is the mean of −log σ(β (log P(S⁺) − log P(S⁻))) over pairs in which S⁺ has a higher LM score
    than S⁻.

    It is DPO's loss (Rafailov et al., 2023) without a reference model. β is per nat; the larger it
    is, the smaller a difference counts as a correct order.
    """
    log_probs, pair = _pairs(scores)
    costs = jax.nn.softplus(beta * (log_probs[None, :] - log_probs[:, None]))
    return jnp.where(pair, costs, 0).sum() / jnp.maximum(pair.sum(), 1)


def _pairs(scores: SetScores) -> tuple[Array, Array]:
    """Return the log-probabilities, and which sets are a pair.

    The log-probabilities are 0 at positions without a set. bool [m, m] is true where sets i and j
    are a pair with i the better one.
    """
    log_probs, lm_scores, mask = scores
    pair = (lm_scores[:, None] > lm_scores[None, :]) & mask[:, None] & mask[None, :]
    return jnp.where(mask, log_probs, 0), pair


def info_nce_loss(scores: SetScores) -> Float[Array, ""]:
    """Return InfoNCE of one query's sets (CEIL, Ye et al. 2023, Table 5).

    It is −log softmax(log P) of the set with the highest LM score, in a tie the first.
    """
    log_probs, lm_scores, mask = scores
    mask = mask & ~jnp.isnan(lm_scores)
    counted = mask | ~mask.any()  # without any set the loss is 0, with a finite gradient
    positive = jnp.argmax(jnp.where(counted, lm_scores, -jnp.inf))
    loss = jax.nn.logsumexp(jnp.where(counted, log_probs, -jnp.inf)) - log_probs[positive]
    return jnp.where(mask.any(), loss, 0)


register_loss("pairwise", pairwise_margin_loss)
register_loss("logistic", logistic_pairwise_loss)
register_loss("info_nce", info_nce_loss)


def epr_contrastive_loss(
    queries: Float[Array, "b d"],
    positives: Float[Array, "b d"],
    negatives: Float[Array, "b d"],
    positive_ids: Int[Array, " b"],
    negative_ids: Int[Array, " b"],
    in_batch: bool = True,
) -> Float[Array, ""]:
    """Return the mean InfoNCE of a batch (EPR, Rubin et al. 2022).

    It is −log softmax of the dot product of a query with its positive, against the positives and
    hard negatives of the whole batch. Unlike in the released code, examples with the same id as a
    query's positive are masked, so that they never count as its negatives.

    Args:
        queries: the vectors of B queries, divided by the temperature.
        positives: the vector of each query's positive.
        negatives: the vector of each query's hard negative.
        positive_ids: the group number of each positive.
        negative_ids: the group number of each hard negative.
        in_batch: whether other queries' positives and hard negatives are also negatives (the
            default); otherwise a query's own hard negative is its only one.
    """
    # column i is query i's positive, column B + i its hard negative
    contexts = jnp.concatenate([positives, negatives])
    ids = jnp.concatenate([positive_ids, negative_ids])
    row = jnp.arange(len(queries))[:, None]
    column = jnp.arange(ids.size)[None, :]
    is_positive = column == row
    is_negative = ids[None, :] != positive_ids[:, None]
    if not in_batch:
        is_own_negative = column == row + len(queries)
        is_negative = is_negative & is_own_negative
    counted = is_positive | is_negative
    logits = jnp.where(counted, queries @ contexts.T, -jnp.inf)
    return (jax.nn.logsumexp(logits, axis=1) - jnp.diagonal(logits)).mean()


def ranking_quality(
    log_probs: Float[np.ndarray, "q m"], lm_scores: Float[np.ndarray, "q m"]
) -> Float[np.ndarray, " q"]:
    """Return Kendall's τ of each query's sets between the model's order and the LM's.

    The orders are by the model's log-probabilities and by the LM's scores.
    """
    return np.asarray(
        jax.vmap(kendall_tau)(jnp.asarray(log_probs), jnp.asarray(lm_scores, log_probs.dtype))
    )


def kendall_tau(log_probs: Float[Array, " m"], lm_scores: Float[Array, " m"]) -> Float[Array, ""]:
    """Return Kendall's τ_b of two lists of values.

    It is (concordant − discordant) / √(pairs untied in one × pairs untied in the other).

    It is 0 if either side is all ties.
    """
    by_model = jnp.sign(log_probs[:, None] - log_probs[None, :])
    by_lm = jnp.sign(lm_scores[:, None] - lm_scores[None, :])
    untied = jnp.abs(by_lm).sum() * jnp.abs(by_model).sum()
    return (by_lm * by_model).sum() / jnp.sqrt(jnp.maximum(untied, 1))
