"""Retrievers of single examples, trained contrastively on scores of candidates.

EPR (Rubin et al., NAACL 2022) scores them by the LM; TST, target similarity tuning (Poesia et al., ICLR 2022), by how
alike the outputs are, for which there is no LM to ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from ceil_jax.distributed.devices import jit_whole, over_devices
from ceil_jax.store.stage import Stage
from ceil_jax.tasks.example import Example
from ceil_jax.training.config import EPRConfig
from ceil_jax.training.loop import TokenTable, Trained, fit, gradient_of, split_held_out
from ceil_jax.training.losses import epr_contrastive_loss
from ceil_jax.training.ranking import kendall_tau, pairwise_ranking_accuracy

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

_HELD_OUT_TEXTS = 128
"""Texts a forward pass where nothing is learnt."""


def output_similarity(
    query_outputs: np.ndarray, bank_outputs: np.ndarray, candidates: np.ndarray
) -> np.ndarray:
    """TST's scores, float [Q, C]: the cosine of a query's output with each candidate's.

    Poesia et al. compare programs by the edits between their trees and fit the encoder's cosines to that; here
    outputs of any kind are compared by an encoder, and the encoder of inputs is trained as EPR's.

    Args:
        query_outputs: float [Q, D], unit rows.
        bank_outputs: float [N, D], unit rows.
        candidates: int [Q, C], bank positions.
    """
    return np.stack([bank_outputs[row] @ one for row, one in zip(candidates, query_outputs, strict=True)])


def train_epr(
    stage: Stage,
    encoder: Encoder,
    queries: Sequence[Example],
    bank: Sequence[Example],
    candidates: np.ndarray,
    scores: np.ndarray,
    config: EPRConfig,
    seed: int,
    groups: np.ndarray | None = None,
    what: str = "EPR",
) -> Trained:
    """One encoder for queries and examples, InfoNCE with in-batch negatives.

    A query's positive is drawn anew each step from its `config.positives` best-scored candidates and its
    hard negative from as many worst, as in the released code; an example that is the positive of one query
    never counts as that query's negative, nor does one of its group.

    Args:
        candidates: int32 [Q, C], bank positions.
        scores: float [Q, C], the LM's log P of the answer given that one example, or whatever else says how good
            it is.
        groups: int [N], a number for each of the bank that is the same for examples that stand for one another;
            by default each stands for itself.
    """
    groups = np.arange(len(bank)) if groups is None else groups
    training, held_out = split_held_out(len(queries), seed)
    # the bank's texts, then the queries': a batch of both is one forward pass of one shape
    tokens = TokenTable(encoder, [example.input for example in (*bank, *queries)])
    ranked = np.take_along_axis(candidates, np.argsort(-scores, axis=1, kind="stable"), axis=1)
    pool = min(config.positives, candidates.shape[1] // 2)

    def batch(step, rows):
        rows = training[rows]
        generator = np.random.default_rng([seed, 2, step])
        draws = generator.integers(pool, size=(2, len(rows)))
        positive = ranked[rows, draws[0]]
        negative = ranked[rows, -1 - draws[1]]
        texts = np.concatenate([len(bank) + rows, positive, negative])
        return tokens[texts], groups[positive].astype(np.int32), groups[negative].astype(np.int32)

    encode = over_devices(encoder.apply)

    def loss(params, batch, key):
        batch_tokens, positive, negative = batch
        vectors, positives, negatives = jnp.split(encode(params, batch_tokens, key=key), 3)
        return epr_contrastive_loss(
            vectors / config.temperature, positives, negatives[:, None], positive, negative[:, None]
        )

    encode_now = jit_whole(encode)

    # the bank's texts that are candidates of several queries are encoded once
    asked = np.concatenate([(len(bank) + held_out)[:, None], candidates[held_out]], axis=1)
    texts = tokens.once(asked, _HELD_OUT_TEXTS)

    def quality(params):
        encoded = texts.encoded(lambda _, chunk: encode_now(params, chunk))[texts.place]
        log_probs = np.einsum("qd,qcd->qc", encoded[:, 0], encoded[:, 1:])
        return ranking_quality(log_probs, scores[held_out])

    return fit(
        stage,
        encoder.params,
        gradient_of(loss),
        batch,
        quality,
        instances=len(training),
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        seed=seed,
        what=f"training {what}",
    )


def ranking_quality(ours: np.ndarray, lm_scores: np.ndarray) -> dict[str, float]:
    """How well our scores [Q, M] order each query's sets as the LM does: means over queries."""
    tau = jax.vmap(kendall_tau)(jnp.asarray(ours), jnp.asarray(lm_scores, ours.dtype))
    accuracy = jax.vmap(pairwise_ranking_accuracy)(jnp.asarray(ours), jnp.asarray(lm_scores, ours.dtype))
    return {"kendall_tau": float(jnp.mean(tau)), "pairwise_accuracy": float(jnp.mean(accuracy))}
