"""Training on single examples: EPR (Rubin et al., NAACL 2022) and TST (Poesia et al., ICLR 2022).

The contrastive objective is `epr_objective`. With another loss, over all candidates of a query,
`train_epr` uses CEIL's training, with single examples as sets of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Int32, PRNGKeyArray

from ceil_jax.distributed.devices import over_devices
from ceil_jax.dpp.lengths import unit
from ceil_jax.encoders.tokenizers import Tokens
from ceil_jax.training.candidates import TrainingData
from ceil_jax.training.ceil import train_ceil
from ceil_jax.training.config import CONTRASTIVE, CEILTraining, EPRTraining
from ceil_jax.training.fixed_blocks import TokensBesideBlocks, beside_blocks
from ceil_jax.training.gradient_cache import GradientCache
from ceil_jax.training.held_out import split_held_out
from ceil_jax.training.loop import Trained, fit
from ceil_jax.training.losses import epr_contrastive_loss, ranking_quality
from ceil_jax.training.token_table import Texts, TokenTable

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

_HELD_OUT_TEXTS = 48
"""Number of texts in a forward pass without a gradient."""

_CHUNKS = 4
"""Number of chunks into which the texts of a step are split by length. A step of 48 sentences takes
half as long as with one chunk."""

_DRAWS = 2
"""The part of the random key, next to the seed, for the draws of a step's positives and
negatives."""


class EPRBatch(NamedTuple):
    """B queries, each with one positive and one hard negative.

    The texts' vectors are passed separately.
    """

    queries: Tokens | TokensBesideBlocks | None
    """int32 [B, T] if queries have their own encoder, else None."""
    positives: Int32[Any, " b"]
    """The group number of each positive."""
    negatives: Int32[Any, " b"]
    """The group number of each hard negative."""


def epr_objective(
    params: Mapping[str, Any],
    vectors: Float[Array, "kinds b d"],
    batch: EPRBatch,
    key: PRNGKeyArray | None,
    *,
    encode: Callable[..., Float[Array, "b d"]],
    temperature: float,
    train_context: str = "shared",
    in_batch: bool = True,
) -> Float[Array, ""]:
    """Return EPR's objective: InfoNCE of a batch over cosines / temperature.

    See `losses.epr_contrastive_loss`.

    Args:
        params: the weights; only read with `train_context` "both".
        vectors: unit vectors of the positives, the hard negatives and the queries, [3, B, D]; with
            `train_context` "both" without the queries, [2, B, D].
        batch: the tokens of queries that have their own encoder, and the groups of the examples.
        key: turns dropout on; None turns it off.
        encode: (weights, tokens, key=dropout key) → vectors: the query encoder with `train_context`
            "both".
        temperature: divides the cosines, above 0.
        train_context: as in `EPRTraining`.
        in_batch: whether other queries' examples are also negatives.
    """
    positives = vectors[0]
    negatives = vectors[1]
    own_encoder = train_context == "both"
    queries = encode(params["query"], batch.queries, key=key) if own_encoder else vectors[2]
    if train_context == "stopped":
        positives = jax.lax.stop_gradient(positives)
        negatives = jax.lax.stop_gradient(negatives)
    return epr_contrastive_loss(
        queries / temperature, positives, negatives, batch.positives, batch.negatives, in_batch
    )


def unit_length(encoder: Encoder, texts: Sequence[str]) -> Callable[..., Float[Array, "texts d"]]:
    """Return `encoder.apply` with vectors scaled to unit length, as in retrieval.

    It is unchanged if its vectors of some texts already have unit length.
    """
    lengths = np.linalg.norm(encoder.encode(texts), axis=1)
    if np.allclose(lengths, 1, atol=1e-3):
        return encoder.apply

    def apply(
        params: Mapping[str, Array], tokens: Tokens, *, key: PRNGKeyArray | None = None
    ) -> Array:
        vectors = encoder.apply(params, tokens, key=key)
        return unit(vectors)

    return apply


def output_similarity(
    query_outputs: Float[np.ndarray, "q d"],
    bank_outputs: Float[np.ndarray, "bank d"],
    candidates: Int[np.ndarray, "q c"],
) -> Float[np.ndarray, "q c"]:
    """Return TST's scores: the cosine between a query's output and the output of each candidate.

    Vectors are unit rows; candidates are bank positions.

    Poesia et al. compare programs by the edit distance of their trees, and fit the encoder's
    cosines to it. Here an encoder compares outputs of any kind, and the encoder of inputs is
    trained as EPR's is.
    """
    return np.stack(
        [
            bank_outputs[positions] @ output
            for positions, output in zip(candidates, query_outputs, strict=True)
        ]
    )


def train_epr(
    encoder: Encoder,
    data: TrainingData,
    config: EPRTraining,
    *,
    seed: int,
    folder: Path,
    groups: Int[np.ndarray, " bank"] | None = None,
    bank_vectors: Float[np.ndarray, "bank d"] | None = None,
    title: str = "EPR",
) -> Trained:
    """Train one encoder for queries and examples, or one for each, to rank single examples.

    With the contrastive loss, each step draws a query's positive from its `config.positives`
    best-scored candidates and its hard negative from as many of the worst, as in the released code.
    Examples of the same group as a query's positive never count as its negatives. With a loss of
    CEIL, the candidates of a query are sets of one example in `ceil.train_ceil`.

    Args:
        encoder: the starting weights.
        data: queries, bank, candidates (sets of one example) and their scores.
        config: the loss, how examples are encoded, and the loop. The trained parameters are
            {"query", "context"} with `train_context` "both", else {"query"}.
        seed: seeds the held-out split, the order of batches, the draws and dropout.
        folder: the folder of checkpoints, from which a stopped training continues.
        groups: a group number for each example of the bank; by default each example is a group of
            its own. Only read with the contrastive loss.
        bank_vectors: the bank's vectors by the starting weights, unit rows, with the fixed blocks
            if `data` has some. Only needed with `train_context` "frozen".
        title: the name of the method in messages.

    Raises:
        UserError: fewer than two queries, an unknown loss or option, or a loss that is not finite.
    """
    if config.loss != CONTRASTIVE:
        return _train_on_sets_of_one(
            encoder, data, config, seed=seed, folder=folder, bank_vectors=bank_vectors, title=title
        )
    shortlist = data.candidates.shortlist
    training_positions, held_out = split_held_out(len(data.queries), seed, data.used_by_start)
    if data.fixed is None:
        blocks = None
        apply = unit_length(encoder, [example.input for example in data.bank[:8]])
    else:
        blocks = np.vstack([data.fixed.bank, data.fixed.queries])
        apply = beside_blocks(encoder.apply, data.fixed.weight)
    # the bank's texts come first, then the queries', so that a batch of both is one forward pass
    texts = TokenTable(encoder, [example.input for example in (*data.bank, *data.queries)], blocks)
    own_encoder = config.train_context == "both"
    sides = ("query", "context") if own_encoder else ("query",)
    objective = partial(
        epr_objective,
        encode=over_devices(apply),
        temperature=config.temperature,
        train_context=config.train_context,
        in_batch=config.in_batch_negatives,
    )
    texts_a_query = 2 if own_encoder else 3
    first_query = len(data.bank)
    # examples that are candidates of several queries are encoded once
    judged = np.concatenate([(first_query + held_out)[:, None], shortlist[held_out]], axis=1)
    order = np.argsort(-data.scores, axis=1, kind="stable")
    problem = _SingleTraining(
        title=title,
        start=dict.fromkeys(sides, encoder.params),
        training_positions=training_positions,
        texts=texts,
        first_query=first_query,
        ranked=np.take_along_axis(shortlist, order, axis=1),
        pool=min(config.positives, shortlist.shape[1] // 2),
        groups=np.arange(len(data.bank)) if groups is None else groups,
        chunk=math.ceil(min(config.batch_size, len(training_positions)) * texts_a_query / _CHUNKS),
        seed=seed,
        cache=GradientCache(apply, sides[-1], objective),
        held_out_texts=texts.once(judged, _HELD_OUT_TEXTS),
        held_out_scores=data.scores[held_out],
    )
    return fit(problem, config, seed=seed, folder=folder)


def _train_on_sets_of_one(
    encoder: Encoder,
    data: TrainingData,
    config: EPRTraining,
    *,
    seed: int,
    folder: Path,
    bank_vectors: Float[np.ndarray, "bank d"] | None,
    title: str,
) -> Trained:
    """Train on all candidates of a query at once.

    For a set of one example, log det S_S is 0 and the log-probability is r / λ, which is cosine /
    temperature up to a constant.
    """
    assert config.train_context != "stopped"  # `EPRTraining` refuses it
    of_sets = CEILTraining(
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        clip=config.clip,
        train_context=config.train_context,
        loss=config.loss,
        loss_options=config.loss_options,
        sets_per_step="all",
    )
    return train_ceil(
        encoder,
        data,
        of_sets,
        bank_vectors=bank_vectors,
        trade_off=config.temperature / 2,
        seed=seed,
        folder=folder,
        title=title,
    )


@dataclass(frozen=True)
class _SingleTraining:
    """A contrastive training on single examples, as a `loop.Problem`."""

    title: str
    start: Mapping[str, Any]
    training_positions: Int[np.ndarray, " t"]
    texts: TokenTable
    """The texts of the bank, followed by those of the queries."""
    first_query: int
    ranked: Int[np.ndarray, "q c"]
    """The candidates of each query, best-scored first."""
    pool: int
    """Number of best candidates from which a positive is drawn, and of worst ones for a hard negative."""
    groups: Int[np.ndarray, " bank"]
    chunk: int
    """Number of texts in a forward pass of a step."""
    seed: int
    cache: GradientCache
    held_out_texts: Texts
    """The texts of each held-out query and its candidates."""
    held_out_scores: Float[np.ndarray, "h c"]

    def batch(self, step: int, rows: Int[np.ndarray, " b"]) -> tuple[Texts, EPRBatch]:
        """Return the batch of a step: its texts, and the groups of its examples."""
        queries = self.training_positions[rows]
        generator = np.random.default_rng([self.seed, _DRAWS, step])
        best, worst = generator.integers(self.pool, size=(2, len(queries)))
        positives = self.ranked[queries, best]
        negatives = self.ranked[queries, -1 - worst]
        query_texts = self.first_query + queries
        own_encoder = "context" in self.start
        encoded = [positives, negatives] if own_encoder else [positives, negatives, query_texts]
        return self.texts.once(np.stack(encoded), self.chunk), EPRBatch(
            queries=self.texts[query_texts] if own_encoder else None,
            positives=self.groups[positives].astype(np.int32),
            negatives=self.groups[negatives].astype(np.int32),
        )

    def gradient(
        self, params: Mapping[str, Any], batch: tuple[Texts, EPRBatch], key: PRNGKeyArray
    ) -> tuple[Array, Mapping[str, Any]]:
        """Return the loss of a batch and its gradient."""
        texts, rest = batch
        return self.cache(params, texts, rest, key)

    def quality(self, params: Mapping[str, Any]) -> Float[np.ndarray, " h"]:
        """Return Kendall's τ of each held-out query's candidates."""
        by_side = {
            side: self.cache.vectors(weights, self.held_out_texts)
            for side, weights in params.items()
        }
        queries = by_side["query"][:, 0]
        candidates = by_side.get("context", by_side["query"])[:, 1:]
        relevance = np.einsum("qd,qcd->qc", queries, candidates)
        return ranking_quality(relevance, self.held_out_scores)

    def quality_as_used(self, params: Mapping[str, Any]) -> Float[np.ndarray, " h"]:
        """Return `quality`: training encodes examples as they are encoded afterwards."""
        return self.quality(params)
