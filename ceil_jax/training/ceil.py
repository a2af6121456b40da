"""CEIL (Ye et al., ICML 2023): a conditional DPP over sets of examples, trained to rank them as the LM does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ceil_jax.distributed.devices import jit_whole, over_devices
from ceil_jax.dpp.distribution import subset_log_probs
from ceil_jax.dpp.kernel import block_log_dets, relevance
from ceil_jax.store.stage import Stage
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import Proposal
from ceil_jax.training.config import CEILConfig
from ceil_jax.training.contrastive import ranking_quality
from ceil_jax.training.gradient_cache import GradientCache
from ceil_jax.training.loop import TokenTable, Trained, fit, gradient_of, split_held_out
from ceil_jax.training.losses import info_nce_loss, pairwise_margin_loss

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

Params = Any

_TEXTS = 64
"""Examples a forward and backward pass, where their encoder learns."""


def train_ceil(
    stage: Stage,
    encoder: Encoder,
    queries: Sequence[Example],
    bank: Sequence[Example],
    bank_vectors: np.ndarray,
    proposal: Proposal,
    scores: np.ndarray,
    config: CEILConfig,
    seed: int,
    seen: np.ndarray | None = None,
) -> Trained:
    """Train log det L'_S to order each query's subsets S as the LM's scores do (equations 8 to 10).

    With a frozen context encoder, log det L'_S = (1/λ) Σ_S (r_i − max r) + log det S_S, whose second term
    never changes: it is computed once, and a step encodes queries only. Otherwise a step encodes the examples of its
    queries' shortlists too, each once, however many queries share it. Either way only k × k blocks are formed, never
    the n × n kernel.

    Args:
        encoder: the weights to start from; it also gave `bank_vectors`.
        bank_vectors: float32 [N, D], unit rows: the frozen examples.
        scores: float [Q, M], the LM's.
        seen: bool [Q]: queries that `encoder` was trained on, which are not held out; none by default.

    Returns:
        Trained parameters: {"query"} or, if `train_context` is "both", {"query", "context"}.
    """
    assert config.trade_off != "tuned"
    trade_off = config.trade_off
    training, held_out = split_held_out(len(queries), seed, seen)
    query_tokens = TokenTable(encoder, [query.input for query in queries])
    rank_loss, size = _rank_loss(config), config.batch_size
    encode = over_devices(encoder.apply)
    starts: dict[str, Params] = {"query": encoder.params}

    def log_probs(params, examples, batch, key):
        tokens, subsets, dets, _ = batch
        similar = jax.vmap(relevance)(encode(params["query"], tokens, key=key), examples)
        dets = jax.vmap(block_log_dets)(examples, subsets) if dets is None else dets
        return jax.vmap(subset_log_probs, (0, 0, 0, None))(similar, dets, subsets, trade_off)

    def loss(params, examples, batch, key):
        return jnp.mean(jax.vmap(rank_loss)(log_probs(params, examples, batch, key), batch[-1]))

    if config.train_context == "frozen":
        log_dets = _frozen_log_dets(bank_vectors, proposal)
        gradient = gradient_of(lambda params, batch, key: loss(params, batch[0], batch[1], key))

        def examples(rows):
            return bank_vectors[proposal.shortlist[rows]], log_dets[rows]

        def vectors(params, known):
            return known

    else:
        context = "context" if config.train_context == "both" else "query"
        starts[context] = encoder.params
        bank_tokens = TokenTable(encoder, [example.input for example in bank])
        cache = GradientCache(encoder.apply, context, loss)

        def gradient(params, batch, key):
            return cache(params, batch[0], batch[1], key)

        def examples(rows):
            return bank_tokens.once(proposal.shortlist[rows], _TEXTS), None

        vectors = cache.vectors

    def batch(rows):
        found, dets = examples(rows)
        return found, (query_tokens[rows], proposal.subsets[rows], dets, scores[rows])

    predict = jit_whole(lambda params, examples, batch: log_probs(params, examples, batch, None))

    def predicted(params, rows):
        found, others = batch(rows)
        return np.asarray(predict(params, vectors(params, found), others))

    def quality(params):
        blocks = [held_out[start : start + size] for start in range(0, len(held_out), size)]
        ours = np.concatenate([predicted(params, rows) for rows in blocks])
        return ranking_quality(ours, scores[held_out])

    return fit(
        stage,
        starts,
        gradient,
        lambda step, rows: batch(training[rows]),
        quality,
        instances=len(training),
        epochs=config.epochs,
        batch_size=size,
        learning_rate=config.learning_rate,
        seed=seed,
        what="training CEIL",
    )


def _rank_loss(config: CEILConfig) -> Callable[[jax.Array, jax.Array], jax.Array]:
    if config.loss == "info_nce":
        return info_nce_loss
    return lambda ours, lm: pairwise_margin_loss(ours, lm, reduction=config.reduction)


def _frozen_log_dets(vectors: np.ndarray, proposal: Proposal) -> np.ndarray:
    """float32 [Q, M]: log det S_S of every subset, a query at a time."""
    one = jax.jit(block_log_dets)
    rows = zip(proposal.shortlist, proposal.subsets, strict=True)
    return np.stack([np.asarray(one(vectors[shortlist], subsets)) for shortlist, subsets in rows])
