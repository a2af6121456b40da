"""CEIL: a conditional DPP trained to rank sets of examples as the LM does.

Ye et al., ICML 2023.

From the paper to this module: `set_log_probs` is log det L'_S of sets (equations 8 to 10),
`ceil_objective` is the objective (equation 6, or another loss), and `train_ceil` the training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from ceil_jax.training.candidates import TrainingData
from ceil_jax.training.config import CEILTraining
from ceil_jax.training.example_vectors import (
    ExampleVectors,
    FrozenExamples,
    LearningExamples,
    Params,
)
from ceil_jax.training.fixed_blocks import TokensBesideBlocks, beside_blocks
from ceil_jax.training.held_out import split_held_out
from ceil_jax.training.loop import Trained, fit
from ceil_jax.training.losses import Loss, SetScores, ceil_loss, ranking_quality
from ceil_jax.training.token_table import TokenTable

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

_HELD_OUT_QUERIES = 128
"""Number of held-out queries in a batch of an evaluation. An example that occurs in several of
their sets is encoded once."""

_DRAWS = 3
"""The seed of the random stream that draws the sets of a step."""


class CEILBatch(NamedTuple):
    """B queries with their scored candidate sets.

    The vectors of the examples are passed separately.
    """

    queries: Tokens | TokensBesideBlocks
    """The token ids of the queries, int32 [B, T]."""
    subsets: Int32[Any, "b m k"]
    """The examples of each set, as positions among the n examples of its query; −1 at empty
    positions."""
    valid: Bool[Any, "b n"]
    """False at positions without an example."""
    log_dets: Float[Any, "b m"] | None
    """log det S_S of every set if examples are frozen, otherwise None."""
    lm_scores: Float[Any, "b m"]
    """The LM's score of every set, in nats."""

    @property
    def frozen(self) -> bool:
        """True if the examples are frozen: their vectors are then unit rows."""
        return self.log_dets is not None


def set_log_probs(
    queries: Float[Array, "b d"],
    examples: Float[Array, "b n d"],
    subsets: Int32[Array, "b m k"],
    log_dets: Float[Array, "b m"] | None,
    trade_off: float,
    valid: Bool[Array, "b n"] | None = None,
    *,
    unit_examples: bool = False,
) -> Float[Array, "b m"]:
    """Return log det L'_S of each query's sets S (CEIL, equations 8 to 10).

    It is (1/λ) Σ_S (r_i − max r) + log det S_S.

    Only k × k blocks are formed, never the n × n kernel.

    Args:
        queries: the vectors of B queries, of any length.
        examples: the vectors of n examples for each query, of any length.
        subsets: M sets of k examples for each query, as positions among its n examples; −1 at empty
            positions.
        log_dets: log det S_S of every set; None to compute it from `examples`.
        trade_off: λ, above 0.
        valid: the examples among which the maximum of r is taken; all by default.
        unit_examples: True if the examples already have length 1 (or 0), which spares r a scaling
            of all of them; False by default.
    """
    relevance_of = partial(relevance, unit_items=unit_examples)
    relevances = jax.vmap(relevance_of)(queries, examples, valid=valid)
    if log_dets is None:
        log_dets = jax.vmap(block_log_dets)(examples, subsets)
    return jax.vmap(subset_log_probs, (0, 0, 0, None))(relevances, log_dets, subsets, trade_off)


def batch_log_probs(
    params: Params,
    examples: Float[Array, "b n d"],
    batch: CEILBatch,
    key: PRNGKeyArray | None = None,
    *,
    encode: Callable[..., Float[Array, "b d"]],
    trade_off: float,
) -> Float[Array, "b m"]:
    """Encode the queries of a batch, and return log det L'_S of their sets.

    Args:
        params: the weights; `params["query"]` encodes queries.
        examples: the vectors of each query's examples.
        batch: the queries and their sets.
        key: turns dropout on; None, the default, turns it off.
        encode: (weights, tokens, key=dropout key) → vectors.
        trade_off: λ of the kernel.
    """
    queries = encode(params["query"], batch.queries, key=key)
    return set_log_probs(
        queries,
        examples,
        batch.subsets,
        batch.log_dets,
        trade_off,
        batch.valid,
        unit_examples=batch.frozen,
    )


def ceil_objective(
    params: Params,
    examples: Float[Array, "b n d"],
    batch: CEILBatch,
    key: PRNGKeyArray | None,
    *,
    encode: Callable[..., Float[Array, "b d"]],
    trade_off: float,
    loss: Loss,
) -> Float[Array, ""]:
    """Return CEIL's objective: the mean of a loss over a batch's queries.

    The loss compares log det L'_S of a query's sets with the LM's scores. With the pairwise margin
    loss it is equation 6.

    Args:
        params: the weights; `params["query"]` encodes queries.
        examples: the vectors of each query's examples.
        batch: the queries, their sets and the LM's scores of these.
        key: turns dropout on; None turns it off.
        encode: (weights, tokens, key=dropout key) → vectors.
        trade_off: λ of the kernel.
        loss: `SetScores` of one query → scalar.
    """
    log_probs = batch_log_probs(params, examples, batch, key, encode=encode, trade_off=trade_off)
    not_empty = (batch.subsets >= 0).any(axis=-1)
    return jnp.mean(jax.vmap(loss)(SetScores(log_probs, batch.lm_scores, not_empty)))


def train_ceil(
    encoder: Encoder,
    data: TrainingData,
    config: CEILTraining,
    *,
    bank_vectors: Float[np.ndarray, "bank d"] | None,
    trade_off: float,
    seed: int,
    folder: Path,
    example_encoder: Encoder | None = None,
    title: str = "CEIL",
) -> Trained:
    """Train encoders so that log det L'_S ranks each query's candidate sets S as their scores do.

    With `train_context` "frozen" or "released", examples keep the vectors of the starting weights
    during training. After "frozen", the trained encoder encodes examples as well, so that a query's
    copy in the bank is again the nearest to it (docs/methods.md), and the final weights are chosen
    by how this ranks held-out sets. With "shared" and "both", each step encodes the examples of its
    sets (`example_vectors`).

    Args:
        encoder: the starting weights.
        data: queries, bank, candidate sets and their scores. Sets may be single examples.
        config: how examples are encoded, the loss, and the loop. The trained parameters are
            {"query", "context"} with `train_context` "both", else {"query"}.
        bank_vectors: the bank's vectors by the starting weights of the example encoder, of any
            length, together with the fixed blocks if `data` has some. May be None if examples are
            not frozen.
        trade_off: λ of the kernel, above 0.
        seed: seeds the held-out split, the order of batches, the sets of a step, and dropout.
        folder: the folder of checkpoints, from which a stopped training continues.
        example_encoder: the starting weights of the example encoder; by default `encoder`.
        title: the name of the method in messages.

    Raises:
        UserError: fewer than two queries, an unknown loss or option, or a loss that is not finite.
    """
    apply = encoder.apply
    query_blocks = None
    bank_blocks = None
    if data.fixed is not None:
        apply = beside_blocks(encoder.apply, data.fixed.weight)
        query_blocks = data.fixed.queries
        bank_blocks = data.fixed.bank
    query_texts = TokenTable(encoder, [query.input for query in data.queries], query_blocks)
    bank_texts = TokenTable(encoder, [example.input for example in data.bank], bank_blocks)
    score = partial(batch_log_probs, encode=over_devices(apply), trade_off=trade_off)
    objective = partial(
        ceil_objective,
        encode=over_devices(apply),
        trade_off=trade_off,
        loss=ceil_loss(config.loss, config.loss_options),
    )
    side = "context" if config.train_context == "both" else "query"
    learning = LearningExamples(objective, apply, side, bank_texts, data.candidates)
    examples: ExampleVectors = learning
    if config.frozen_examples:
        assert bank_vectors is not None, "frozen examples have the vectors of the bank"
        examples = FrozenExamples(objective, bank_vectors, data.candidates)
    training_positions, held_out = split_held_out(len(data.queries), seed, data.used_by_start)
    problem = _SetTraining(
        title=title,
        start={side: (example_encoder or encoder).params, "query": encoder.params},
        training_positions=training_positions,
        held_out=held_out,
        texts=query_texts,
        scores=data.scores,
        examples=examples,
        # with "released", the trained encoder encodes queries only
        examples_as_used=examples if config.train_context == "released" else learning,
        sets_in_a_step=config.sets_in_a_step(data.scores.shape[1]),
        seed=seed,
        log_probs=jit_whole(score),
    )
    return fit(problem, config, seed=seed, folder=folder)


@dataclass(frozen=True)
class _SetTraining:
    """A training on sets, as a `loop.Problem`."""

    title: str
    start: Params
    training_positions: Int[np.ndarray, " t"]
    held_out: Int[np.ndarray, " h"]
    texts: TokenTable
    scores: Float[np.ndarray, "q m"]
    examples: ExampleVectors
    examples_as_used: ExampleVectors
    sets_in_a_step: int
    seed: int
    log_probs: Callable[..., Array]

    def batch(self, step: int, rows: Int[np.ndarray, " b"]) -> tuple[Any, CEILBatch]:
        """Return the batch of a step: (source of the examples' vectors, the rest).

        It has some of each query's sets.
        """
        generator = np.random.default_rng([self.seed, _DRAWS, step])
        shuffled = generator.permuted(self._every_set(len(rows)), axis=1)
        sets = np.sort(shuffled[:, : self.sets_in_a_step], axis=1)
        return self._batch_of(self.examples, self.training_positions[rows], sets)

    def gradient(
        self, params: Params, batch: tuple[Any, CEILBatch], key: PRNGKeyArray
    ) -> tuple[Array, Mapping[str, Any]]:
        """Return the loss of a batch and its gradient."""
        source, rest = batch
        return self.examples.gradient(params, source, rest, key)

    def quality(self, params: Params) -> Float[np.ndarray, " h"]:
        """Return Kendall's τ of each held-out query's sets, with examples encoded as in training."""
        return self._quality(params, self.examples)

    def quality_as_used(self, params: Params) -> Float[np.ndarray, " h"]:
        """Return Kendall's τ of each held-out query's sets, with examples encoded as after training."""
        return self._quality(params, self.examples_as_used)

    def _quality(self, params: Params, examples: ExampleVectors) -> Float[np.ndarray, " h"]:
        batches = []
        for start in range(0, len(self.held_out), _HELD_OUT_QUERIES):
            queries = self.held_out[start : start + _HELD_OUT_QUERIES]
            source, batch = self._batch_of(examples, queries, self._every_set(len(queries)))
            vectors = examples.vectors(params, source)
            batches.append(np.asarray(self.log_probs(params, vectors, batch)))
        log_probs = np.concatenate(batches)  # [h, m]
        lm_scores = self.scores[self.held_out]
        # set 0 is the top-k of the starting weights, so that comparing other weights on it would
        # not be fair; of two sets, both are needed for an order
        first = 1 if self.scores.shape[1] > 2 else 0
        return ranking_quality(log_probs[:, first:], lm_scores[:, first:])

    def _batch_of(
        self, examples: ExampleVectors, queries: np.ndarray, sets: Int[np.ndarray, "b m"]
    ) -> tuple[Any, CEILBatch]:
        """Return the batch of some sets of some queries.

        It is (source of the examples' vectors, the rest).
        """
        source, subsets, valid, log_dets = examples.of_sets(queries, sets)
        scores = np.take_along_axis(self.scores[queries], sets, axis=1)
        return source, CEILBatch(self.texts[queries], subsets, valid, log_dets, scores)

    def _every_set(self, queries: int) -> Int[np.ndarray, "b m"]:
        """The indices of all candidate sets, repeated for each query."""
        return np.tile(np.arange(self.scores.shape[1]), (queries, 1))
