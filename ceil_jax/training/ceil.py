"""CEIL (Ye et al., ICML 2023): a conditional DPP over sets of examples, trained to rank them as the
LM does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32, PRNGKeyArray

from ceil_jax.distributed.devices import jit_whole, over_devices
from ceil_jax.dpp.distribution import subset_log_probs
from ceil_jax.dpp.kernel import block_log_dets, relevance
from ceil_jax.encoders.tokenizers import Tokens
from ceil_jax.training.candidates import CandidateSets, TrainingData
from ceil_jax.training.config import CEILConfig
from ceil_jax.training.fixed import WithFixed, beside_fixed
from ceil_jax.training.gradient_cache import GradientCache, TokenTable
from ceil_jax.training.loop import Trained, fit, split_held_out
from ceil_jax.training.losses import SetScores, ceil_loss, ranking_quality

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

_TEXTS = 64
"""Examples a forward and backward pass, where the encoder of examples learns."""

_JUDGED = 128
"""Held-out queries per batch of an evaluation. An example that several of their sets share is
encoded once."""

SETS_A_STEP = 4
"""Candidate sets per query and step if the examples' encoder learns, which makes them the cost of a
step."""


class CEILBatch(NamedTuple):
    """B queries with their scored candidate sets; the vectors of their shortlists are given
    separately."""

    queries: Tokens | WithFixed
    """int32 [B, T]"""
    subsets: Int32[Any, "b m k"]
    """Places in the shortlist, −1 at empty places."""
    valid: Bool[Any, "b n"]
    """False at empty places of the shortlist."""
    log_dets: Float[Any, "b m"] | None
    """log det S_S of every set where examples are frozen, otherwise None."""
    lm_scores: Float[Any, "b m"]


def set_log_probs(
    queries: Float[Array, "b d"],
    examples: Float[Array, "b n d"],
    subsets: Int32[Array, "b m k"],
    log_dets: Float[Array, "b m"] | None,
    trade_off: float,
    valid: Bool[Array, "b n"] | None = None,
) -> Float[Array, "b m"]:
    """log det L'_S = (1/λ) Σ_S (r_i − max r) + log det S_S of each query's sets S (CEIL, equations
    8 to 10).

    Only k × k blocks are formed, never the n × n kernel. `subsets` are places in the shortlist, −1
    where empty; `log_dets` are log det S_S of every set, computed from `examples` where they are
    not given; the maximum of r is that of the `valid` places of the shortlist, of all by default.
    """
    relevances = jax.vmap(relevance)(queries, examples, valid=valid)
    if log_dets is None:
        log_dets = jax.vmap(block_log_dets)(examples, subsets)
    return jax.vmap(subset_log_probs, (0, 0, 0, None))(relevances, log_dets, subsets, trade_off)


def train_ceil(
    folder: Path,
    encoder: Encoder,
    bank_vectors: Float[np.ndarray, "bank d"],
    data: TrainingData,
    config: CEILConfig,
    seed: int,
    trade_off: float,
    example_encoder: Encoder | None = None,
) -> Trained:
    """Train log det L'_S to order each query's candidate sets S as their scores do.

    With `train_context` "frozen" or "released", examples have the vectors of the starting weights
    while training: log det S_S never changes, it is computed once, and a step encodes queries only.
    After "frozen" the trained encoder encodes examples too, so that a query's copy in the bank is
    the nearest to it again (docs/recipe.md); the weights that training ends with are chosen by how
    that ranks held-out sets. Otherwise a step draws a few of each query's sets and also encodes
    their examples, each once, however many sets hold it.

    Args:
        folder: holds checkpoints.
        encoder: the starting weights.
        bank_vectors: the bank by them, unit rows, beside the fixed part where `data` has one.
        data: queries, bank, candidate sets and their scores.
        config: the trained parameters are {"query", "context"} with `train_context` "both", else
            {"query"}.
        seed: of the held-out split, the order of batches, and dropout.
        trade_off: λ of the kernel.
        example_encoder: the starting weights of the encoder of examples, where it is another one.
    """
    fixed, apply = data.fixed, encoder.apply
    if fixed:
        apply = beside_fixed(apply, fixed.weight)
    encode, loss = over_devices(apply), ceil_loss(config.loss, config.loss_options)

    def log_probs(
        params: Mapping[str, Any],
        examples: Array,
        batch: CEILBatch,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "b m"]:
        queries = encode(params["query"], batch.queries, key=key)
        return set_log_probs(
            queries, examples, batch.subsets, batch.log_dets, trade_off, batch.valid
        )

    def objective(
        params: Mapping[str, Any], examples: Array, batch: CEILBatch, key: PRNGKeyArray
    ) -> Float[Array, ""]:
        ours, mask = log_probs(params, examples, batch, key), (batch.subsets >= 0).any(axis=-1)
        return jnp.mean(jax.vmap(loss)(SetScores(ours, batch.lm_scores, mask)))

    context = "context" if config.train_context == "both" else "query"
    training, held_out = split_held_out(len(data.queries), seed, data.seen)
    # set 0 is the top-k of the starting weights, whose ranking of it is not a fair measure of other
    # weights
    judged = slice(1 if data.scores.shape[1] > 2 else 0, None)
    shown = TokenTable(encoder, [example.input for example in data.bank], fixed and fixed.bank)
    learnt = _LearntExamples(GradientCache(apply, context, objective), shown, data.candidates)
    examples: _FrozenExamples | _LearntExamples = learnt
    if config.train_context in ("frozen", "released"):
        examples = _FrozenExamples(objective, bank_vectors, data.candidates)
    tokens = TokenTable(encoder, [query.input for query in data.queries], fixed and fixed.queries)
    every_set = np.arange(data.scores.shape[1])
    predict = jit_whole(log_probs)

    def of_sets(
        examples: _FrozenExamples | _LearntExamples, rows: np.ndarray, sets: Int[np.ndarray, "b m"]
    ) -> tuple[Any, CEILBatch]:
        """The examples of these sets of these queries, and the rest of the batch."""
        found, subsets, valid, log_dets = examples.of(rows, sets)
        scores = np.take_along_axis(data.scores[rows], sets, axis=1)
        return found, CEILBatch(tokens[rows], subsets, valid, log_dets, scores)

    def quality(
        examples: _FrozenExamples | _LearntExamples, params: Mapping[str, Any]
    ) -> np.ndarray:
        blocks = [held_out[i : i + _JUDGED] for i in range(0, len(held_out), _JUDGED)]
        batches = (of_sets(examples, rows, np.tile(every_set, (len(rows), 1))) for rows in blocks)
        vectors = partial(examples.vectors, params[context])
        ours = [np.asarray(predict(params, vectors(found), rest)) for found, rest in batches]
        return ranking_quality(np.concatenate(ours)[:, judged], data.scores[held_out][:, judged])

    def batch(step: int, rows: np.ndarray) -> tuple[Any, CEILBatch]:
        generator = np.random.default_rng([seed, 3, step])
        drawn = generator.permuted(np.tile(every_set, (len(rows), 1)), axis=1)[
            :, : examples.sets_a_step
        ]
        return of_sets(examples, training[rows], np.sort(drawn, axis=1))

    return fit(
        folder,
        {context: (example_encoder or encoder).params, "query": encoder.params},
        lambda params, batch, key: examples.gradient(params, batch[0], batch[1], key),
        batch,
        partial(quality, examples),
        instances=len(training),
        config=config,
        seed=seed,
        what="training CEIL",
        # with "released" the trained encoder encodes queries only
        as_used=partial(quality, examples if config.train_context == "released" else learnt),
    )


class _FrozenExamples:
    """Examples with the vectors of the starting weights; a step takes all of a query's sets."""

    sets_a_step: int | None = None

    def __init__(
        self, objective: Callable[..., Array], vectors: np.ndarray, candidates: CandidateSets
    ) -> None:
        self._bank, self._candidates = vectors, candidates
        one = jax.jit(block_log_dets)
        each = zip(candidates.shortlist, candidates.subsets, strict=True)
        self._log_dets = np.stack(
            [np.asarray(one(vectors[shortlist], subsets)) for shortlist, subsets in each]
        )
        self.gradient = jit_whole(jax.value_and_grad(objective))

    def of(self, rows: np.ndarray, sets: Int[np.ndarray, "b m"]) -> tuple[np.ndarray, ...]:
        """The vectors [B, n, D], subsets, valid places and log dets of these sets of these
        queries."""
        shortlist, chosen = self._candidates.shortlist[rows], (rows[:, None], sets)
        return (
            self._bank[shortlist],
            self._candidates.subsets[chosen],
            shortlist >= 0,
            self._log_dets[chosen],
        )

    def vectors(self, own: Any, examples: np.ndarray) -> np.ndarray:
        return examples


class _LearntExamples:
    """Examples that a step encodes: the texts of a few of a query's sets."""

    sets_a_step: int | None = SETS_A_STEP

    def __init__(
        self, gradient: GradientCache, bank: TokenTable, candidates: CandidateSets
    ) -> None:
        self._tokens, self._candidates = bank, candidates
        self.gradient, self.vectors = gradient, gradient.vectors

    def of(self, rows: np.ndarray, sets: Int[np.ndarray, "b m"]) -> tuple[Any, ...]:
        """The texts of these sets of these queries, the sets' places among them, valid places, and
        no log dets."""
        shortlist, subsets = (
            self._candidates.shortlist[rows],
            self._candidates.subsets[rows[:, None], sets],
        )
        # only what the sets hold is encoded; the maximum of r is then over these, which orders sets
        # of one size alike
        places = subsets.reshape(len(rows), -1)
        members = np.take_along_axis(shortlist, np.maximum(places, 0), axis=1)
        own = np.arange(places.shape[1], dtype=np.int32).reshape(subsets.shape[1:])
        texts = self._tokens.once(members, _TEXTS)
        return texts, np.where(subsets >= 0, own, -1), places >= 0, None
