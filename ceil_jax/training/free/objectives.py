"""Objectives of an adapter: the similarity of all outputs, or an LM's scores of single examples or of sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ceil_jax.training.candidates import TrainingData
from ceil_jax.training.ceil import set_log_probs
from ceil_jax.training.free.rows import Kind, Observed, OutputComparison
from ceil_jax.training.losses import SetScores, epr_contrastive_loss


class Objective(NamedTuple):
    """The examples that a training step takes, and its loss."""

    positions: Int[np.ndarray, " q"]
    """Bank rows that are the training queries."""
    draw: Callable[[np.random.Generator, Int[np.ndarray, " b"]], tuple[np.ndarray, Any]]
    """(Generator, numbers of B training queries) → bank rows, [M] for all queries or [B, n] for each, and arrays that
    the loss takes."""
    loss: Callable[[Array, Array, Any, Array], Float[Array, ""]]
    """(Mapped queries [B, D'], mapped examples [M, D'] or [B, n, D'], the arrays, scale) → the mean loss; a logit is
    `scale` times a dot product."""


def tst(rows: Observed, kind: Kind, *, at_once: int = 2048, temperature: float = 0.1) -> Objective:
    """Target similarity tuning on the whole bank: the cross-entropy of softmax(scale · relevance) over many examples
    against softmax(similarity of outputs / temperature). TST: Poesia et al., ICLR 2022; the listwise loss is ours.

    Args:
        rows: the bank, with outputs; its rows are the queries too.
        kind: the similarity of outputs.
        at_once: examples that a step takes at most.
        temperature: divides the similarities.
    """
    similarity, count = OutputComparison(kind, rows), len(rows.texts)

    def draw(generator: np.random.Generator, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        examples = np.sort(generator.permutation(count)[:at_once])
        similar = similarity(queries, examples).astype(np.float32)
        similar[queries[:, None] == examples] = -np.inf  # a query is not its own example
        return examples, similar

    def loss(queries: Array, examples: Array, similar: Array, scale: Array) -> Array:
        own = jnp.isneginf(similar)
        target = jax.nn.softmax(similar / temperature, axis=1)
        logits = jnp.where(own, -jnp.inf, scale * queries @ examples.T)
        return -jnp.sum(target * jnp.where(own, 0, jax.nn.log_softmax(logits, axis=1)), axis=1).mean()

    return Objective(np.arange(count), draw, loss)


def epr(positions: Int[np.ndarray, " q"], data: TrainingData, pool: int) -> Objective:
    """EPR on vectors: InfoNCE with in-batch negatives, a positive drawn from the `pool` best-scored candidates of a
    query and a hard negative from as many worst (Rubin et al., NAACL 2022)."""
    order = np.argsort(-data.scores, axis=1, kind="stable")
    ranked = np.take_along_axis(data.candidates.shortlist, order, axis=1)
    pool = min(pool, order.shape[1] // 2)

    def draw(generator: np.random.Generator, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        best, worst = generator.integers(pool, size=(2, len(queries)))
        examples = np.stack([ranked[queries, best], ranked[queries, -1 - worst]], axis=1)
        return examples, examples

    def loss(queries: Array, examples: Array, rows: Array, scale: Array) -> Array:
        return epr_contrastive_loss(scale * queries, examples[:, 0], examples[:, 1], rows[:, 0], rows[:, 1])

    return Objective(positions, draw, loss)


def ceil(
    positions: Int[np.ndarray, " q"],
    data: TrainingData,
    set_loss: Callable[[SetScores], Float[Array, ""]],
    trade_off: float,
) -> Objective:
    """CEIL on vectors: a loss of log det L'_S and the scores of sets S (Ye et al., ICML 2023), with λ `trade_off`."""

    def draw(generator: np.random.Generator, queries: np.ndarray) -> tuple[np.ndarray, Any]:
        shortlist = data.candidates.shortlist[queries]
        given = data.candidates.subsets[queries], data.scores[queries], shortlist >= 0
        return np.maximum(shortlist, 0), given

    def loss(queries: Array, examples: Array, given: Any, scale: Array) -> Array:
        subsets, scores, valid = given
        log_probs = set_log_probs(queries, examples, subsets, None, trade_off, valid)
        return jax.vmap(set_loss)(SetScores(log_probs, scores, (subsets >= 0).any(axis=-1))).mean()

    return Objective(positions, draw, loss)
