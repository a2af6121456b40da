"""CEIL (Ye et al., ICML 2023): a conditional DPP over sets of examples, trained to rank them as the LM does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

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
from ceil_jax.training.gradient_cache import GradientCache, TokenTable
from ceil_jax.training.loop import Measures, Trained, fit, gradient_of, split_held_out
from ceil_jax.training.losses import SetScores, ceil_loss, ranking_quality

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

Params = Mapping[str, Any]
"""The encoders' parameters: those of `query`, and of `context` where the examples have an encoder of their own."""

_TEXTS = 64
"""Examples a forward and backward pass, where the encoder of examples learns."""

_JUDGED = 128
"""Held-out queries per batch of an evaluation. An example that several of their sets share is encoded once."""

SETS_A_STEP = 4
"""Candidate sets per query and step if the examples' encoder learns, which makes them the cost of a step."""


class CEILBatch(NamedTuple):
    """B queries with their scored candidate sets; the vectors of their shortlists are given separately."""

    queries: Tokens
    """int32 [B, T]"""
    subsets: Int32[Any, "b m k"]
    """Places in the shortlist, −1 at empty places."""
    valid: Bool[Any, "b n"]
    """False at empty places of the shortlist."""
    log_dets: Float[Any, "b m"] | None
    """log det S_S of every set where examples are frozen, otherwise None."""
    lm_scores: Float[Any, "b m"]


def ceil_objective(
    params: Params,
    examples: Float[Array, "b n d"],
    batch: CEILBatch,
    key: PRNGKeyArray | None,
    *,
    encode: Callable[..., Float[Array, "b d"]],
    loss: Callable[[SetScores], Float[Array, ""]],
    trade_off: float,
) -> Float[Array, ""]:
    """Mean loss of a batch: how well log det L'_S orders each query's sets S as the LM's scores do.

    Args:
        params: the encoders' parameters; only those of `query` are used here.
        examples: vectors of each query's shortlist.
        batch: the queries and their sets.
        key: dropout key of the queries' encoder; None is without dropout.
        encode: (parameters, tokens [B, T], key=key) → vectors.
        loss: the scores of one query's sets → scalar.
        trade_off: λ of the kernel.
    """
    queries = encode(params["query"], batch.queries, key=key)
    log_probs = set_log_probs(queries, examples, batch.subsets, batch.log_dets, trade_off, batch.valid)
    return jnp.mean(jax.vmap(loss)(SetScores(log_probs, batch.lm_scores, (batch.subsets >= 0).any(axis=-1))))


def set_log_probs(
    queries: Float[Array, "b d"],
    examples: Float[Array, "b n d"],
    subsets: Int32[Array, "b m k"],
    log_dets: Float[Array, "b m"] | None,
    trade_off: float,
    valid: Bool[Array, "b n"] | None = None,
) -> Float[Array, "b m"]:
    """log det L'_S = (1/λ) Σ_S (r_i − max r) + log det S_S of each query's sets S (CEIL, equations 8 to 10).

    Only k × k blocks are formed, never the n × n kernel.

    Args:
        queries: vectors of the queries.
        examples: vectors of their shortlists.
        subsets: places in the shortlist, −1 at empty places.
        log_dets: log det S_S of every set; computed from `examples` where they are not given.
        trade_off: λ.
        valid: places of the shortlist that hold an example, over which the maximum of r is taken; all by default.
    """
    relevances = jax.vmap(relevance)(queries, examples, valid=valid)
    if valid is not None:
        relevances = jnp.where(valid, relevances, -jnp.inf)
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

    With `train_context` "frozen" or "released", examples have the vectors of the starting weights while training:
    log det S_S
    never changes, it is computed once, and a step encodes queries only. Afterwards the trained encoder encodes
    examples too, so that a query's copy in the bank is the nearest to it again (docs/recipe.md); what training ends
    with is chosen by how that ranks held-out sets. Otherwise a step draws a few of each query's sets and also encodes
    their examples, each once, however many sets hold it.

    Args:
        folder: where checkpoints are kept.
        encoder: the starting weights; it also gave `bank_vectors`.
        bank_vectors: unit rows.
        data: queries, bank, candidate sets and their scores.
        config: settings.
        seed: of the held-out split, the order of batches, and dropout.
        trade_off: λ of the kernel.
        example_encoder: the starting weights of the encoder of examples, where it is another one.

    Returns:
        Trained parameters: {"query"} or, if `train_context` is "both", {"query", "context"}.
    """
    settings: dict[str, Any] = {"encode": over_devices(encoder.apply), "trade_off": trade_off}
    loss = ceil_loss(config.loss, config.loss_options, config.reduction)
    objective = partial(ceil_objective, loss=loss, **settings)
    context = "context" if config.train_context == "both" else "query"
    training, held_out = split_held_out(len(data.queries), seed, data.seen)
    # set 0 is the top-k of the starting weights, whose ranking of it is not a fair measure of other weights
    judged = slice(1 if data.scores.shape[1] > 2 else 0, None)
    learnt = _LearntExamples(objective, encoder, context, data)
    examples: _Examples = learnt
    if config.train_context in ("frozen", "released"):
        examples = _FrozenExamples(objective, bank_vectors, data.candidates)
    sets, predict = _BatchedSets(encoder, data), jit_whole(partial(_predicted, **settings))

    def quality(examples: _Examples, params: Params) -> Measures:
        blocks = [held_out[i : i + _JUDGED] for i in range(0, len(held_out), _JUDGED)]
        batches = (sets.batch(examples, rows, sets.all(rows)) for rows in blocks)
        ours = [np.asarray(predict(params, examples.vectors(params, found), rest)) for found, rest in batches]
        return ranking_quality(np.concatenate(ours)[:, judged], data.scores[held_out][:, judged])

    def batch(step: int, rows: np.ndarray) -> tuple[Any, CEILBatch]:
        drawn = sets.drawn(training[rows], examples.sets_a_step, np.random.default_rng([seed, 3, step]))
        return sets.batch(examples, training[rows], drawn)

    return fit(
        folder,
        {context: (example_encoder or encoder).params, "query": encoder.params},
        lambda params, batch, key: examples.gradient(params, batch[0], batch[1], key),
        batch,
        partial(quality, examples),
        instances=len(training),
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        clip=config.clip,
        seed=seed,
        what="training CEIL",
        # with "released" the trained encoder encodes queries only
        as_used=partial(quality, examples if config.train_context == "released" else learnt),
    )


def _predicted(
    params: Params,
    examples: Array,
    batch: CEILBatch,
    encode: Callable[..., Array],
    trade_off: float,
) -> Array:
    queries = encode(params["query"], batch.queries, key=None)
    return set_log_probs(queries, examples, batch.subsets, batch.log_dets, trade_off, batch.valid)


class _BatchedSets:
    """The scored sets of all queries, of which batches are made."""

    def __init__(self, encoder: Encoder, data: TrainingData) -> None:
        self._tokens = TokenTable(encoder, [query.input for query in data.queries])
        self._scores = data.scores

    def all(self, rows: np.ndarray) -> Int[np.ndarray, "b m"]:
        """The numbers of all sets of these queries."""
        return np.tile(np.arange(self._scores.shape[1]), (len(rows), 1))

    def drawn(
        self, rows: np.ndarray, count: int | None, generator: np.random.Generator
    ) -> Int[np.ndarray, "b m"]:
        """The numbers of `count` sets of each of these queries, drawn without replacement; None is all of them."""
        return np.sort(generator.permuted(self.all(rows), axis=1)[:, :count], axis=1)

    def batch(
        self, examples: _Examples, rows: np.ndarray, sets: Int[np.ndarray, "b m"]
    ) -> tuple[Any, CEILBatch]:
        """The examples of these sets of these queries, and the rest of the batch."""
        found, places, valid, log_dets = examples.of(rows, sets)
        scores = np.take_along_axis(self._scores[rows], sets, axis=1)
        return found, CEILBatch(self._tokens[rows], places, valid, log_dets, scores)


class _Shown(NamedTuple):
    """The examples that a batch's sets are of."""

    examples: Any
    """Vectors [B, n, D], or the texts that are to be encoded."""
    subsets: Int32[np.ndarray, "b m k"]
    """Places in `examples`, −1 at empty places."""
    valid: Bool[np.ndarray, "b n"]
    """False at empty places of `examples`."""
    log_dets: Float[np.ndarray, "b m"] | None
    """log det S_S of every set, where it never changes."""


@runtime_checkable
class _Examples(Protocol):
    """The examples of a batch's sets, on the path from the encoder to the objective."""

    sets_a_step: int | None
    """Sets of a query in one step of training; None is all of them."""

    def of(self, rows: np.ndarray, sets: Int[np.ndarray, "b m"]) -> _Shown:
        """The examples of these sets of these queries."""
        ...

    def vectors(self, params: Params, examples: Any) -> np.ndarray:
        """Their vectors [B, n, D], without dropout."""
        ...

    def gradient(
        self, params: Params, examples: Any, batch: CEILBatch, key: PRNGKeyArray
    ) -> tuple[Array, Params]:
        """The objective and its gradient with respect to `params`."""
        ...


class _FrozenExamples:
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
        self.gradient = gradient_of(objective)

    def of(self, rows: np.ndarray, sets: Int[np.ndarray, "b m"]) -> _Shown:
        shortlist, subsets = self._candidates.shortlist[rows], self._candidates.subsets
        chosen = rows[:, None], sets
        return _Shown(self._bank[shortlist], subsets[chosen], shortlist >= 0, self._log_dets[chosen])

    def vectors(self, params: Params, examples: np.ndarray) -> np.ndarray:
        return examples


class _LearntExamples:
    sets_a_step: int | None = SETS_A_STEP

    def __init__(
        self, objective: Callable[..., Array], encoder: Encoder, context: str, data: TrainingData
    ) -> None:
        self._tokens = TokenTable(encoder, [example.input for example in data.bank])
        self._candidates = data.candidates
        self._cache = GradientCache(encoder.apply, context, objective)
        self.vectors = self._cache.vectors
        self.gradient = self._cache

    def of(self, rows: np.ndarray, sets: Int[np.ndarray, "b m"]) -> _Shown:
        shortlist, subsets = self._candidates.shortlist[rows], self._candidates.subsets[rows[:, None], sets]
        # only what the sets hold is encoded; the maximum of r is then over these, which orders sets of one size alike
        places = subsets.reshape(len(rows), -1)
        members = np.take_along_axis(shortlist, np.maximum(places, 0), axis=1)
        own = np.arange(places.shape[1], dtype=np.int32).reshape(subsets.shape[1:])
        texts = self._tokens.once(members, _TEXTS)
        return _Shown(texts, np.where(subsets >= 0, own, -1), places >= 0, None)
