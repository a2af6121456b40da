"""Contrastive training on single examples: EPR (Rubin et al., NAACL 2022) and TST (Poesia et al.,
ICLR 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Int32, PRNGKeyArray

from ceil_jax.distributed.devices import over_devices
from ceil_jax.dpp.kernel import norm
from ceil_jax.encoders.tokenizers import Tokens
from ceil_jax.training.candidates import TrainingData
from ceil_jax.training.config import EPRConfig
from ceil_jax.training.fixed import WithFixed, beside_fixed
from ceil_jax.training.gradient_cache import GradientCache, Texts, TokenTable
from ceil_jax.training.loop import Trained, fit, split_held_out
from ceil_jax.training.losses import epr_contrastive_loss, ranking_quality

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

_HELD_OUT_TEXTS = 48
"""Texts a forward pass without a gradient."""

_CHUNKS = 4
"""Chunks of a step's texts, by length: a step of 48 sentences takes half as long as in one
chunk."""


class EPRBatch(NamedTuple):
    """B queries, each with one positive and one hard negative; the texts' vectors are given
    separately."""

    queries: Tokens | WithFixed | None
    """int32 [B, T], if queries have an encoder of their own."""
    positives: Int32[Any, " b"]
    """The number of each positive's group."""
    negatives: Int32[Any, " b"]
    """The number of each hard negative's group."""


def epr_objective(
    params: Mapping[str, Any],
    vectors: Float[Array, "kinds b d"],
    batch: EPRBatch,
    key: PRNGKeyArray | None,
    *,
    encode: Callable[..., Float[Array, "b d"]],
    temperature: float,
    train_context: str = "shared",
) -> Float[Array, ""]:
    """InfoNCE of a batch with in-batch negatives over cosines / temperature
    (`losses.epr_contrastive_loss`).

    `vectors`, of unit length, are the positives, the hard negatives and the queries. With
    `train_context` "both" (see `EPRConfig`) queries have an encoder of their own instead: `encode`
    (parameters, tokens, key=dropout key).
    """
    positives, negatives = vectors[:2]
    queries = (
        encode(params["query"], batch.queries, key=key) if train_context == "both" else vectors[2]
    )
    if train_context == "stopped":
        positives, negatives = jax.lax.stop_gradient((positives, negatives))
    return epr_contrastive_loss(
        queries / temperature, positives, negatives, batch.positives, batch.negatives
    )


def unit_length(encoder: Encoder, texts: Sequence[str]) -> Callable[..., Float[Array, "texts d"]]:
    """Return `encoder.apply` with vectors of unit length, as retrieval compares them; unchanged
    where its vectors of some texts have unit length already."""
    lengths = np.linalg.norm(encoder.encode(texts), axis=1)
    if np.allclose(lengths, 1, atol=1e-3):
        return encoder.apply

    def apply(
        params: Mapping[str, Array], tokens: Tokens, *, key: PRNGKeyArray | None = None
    ) -> Array:
        vectors = encoder.apply(params, tokens, key=key)
        return vectors / norm(vectors)[:, None]

    return apply


def output_similarity(
    query_outputs: Float[np.ndarray, "q d"],
    bank_outputs: Float[np.ndarray, "bank d"],
    candidates: Int[np.ndarray, "q c"],
) -> Float[np.ndarray, "q c"]:
    """TST's scores: the cosine of a query's output with each candidate's, from unit rows and bank
    positions.

    Poesia et al. compare programs by the edit distance of their trees and fit the encoder's cosines
    to that; here an encoder compares outputs of any kind, and the encoder of inputs is trained as
    EPR's.
    """
    return np.stack(
        [bank_outputs[row] @ one for row, one in zip(candidates, query_outputs, strict=True)]
    )


def train_epr(
    folder: Path,
    encoder: Encoder,
    data: TrainingData,
    config: EPRConfig,
    seed: int,
    groups: Int[np.ndarray, " bank"] | None = None,
    name: str = "EPR",
) -> Trained:
    """Train one encoder of queries and examples, or one of each, by InfoNCE of cosines with
    in-batch negatives.

    A query's positive is drawn anew in each step from its `config.positives` best-scored candidates
    and its hard negative from as many worst, as in the released code. An example that is the
    positive of one query never counts as that query's negative, nor does another of its group.

    Args:
        folder: holds checkpoints.
        encoder: the starting weights.
        data: queries, bank, candidates (sets of one example) and their scores.
        config: the trained parameters are {"query", "context"} with `train_context` "both", else
            {"query"}.
        seed: of the held-out split, the order of batches, the draws and dropout.
        groups: a number for each example of the bank, equal for examples that stand for one
            another; by default each stands for itself.
        name: what messages call the retriever.
    """
    groups = np.arange(len(data.bank)) if groups is None else groups
    candidates = data.candidates.shortlist
    training, held_out = split_held_out(len(data.queries), seed, data.seen)
    # the bank's texts come first, then the queries': a batch of both is one forward pass of one
    # shape
    fixed = data.fixed and np.vstack([data.fixed.bank, data.fixed.queries])
    tokens = TokenTable(encoder, [example.input for example in (*data.bank, *data.queries)], fixed)
    first_query = len(data.bank)
    ranked = np.take_along_axis(candidates, np.argsort(-data.scores, axis=1, kind="stable"), axis=1)
    pool = min(config.positives, candidates.shape[1] // 2)

    both = config.train_context == "both"
    names = ("query", "context") if both else ("query",)
    chunk = math.ceil(min(config.batch_size, len(training)) * (2 if both else 3) / _CHUNKS)

    def batch(step: int, rows: np.ndarray) -> tuple[Texts, EPRBatch]:
        rows = training[rows]
        best, worst = np.random.default_rng([seed, 2, step]).integers(pool, size=(2, len(rows)))
        positive, negative = ranked[rows, best], ranked[rows, -1 - worst]
        asked = first_query + rows
        texts = np.stack([positive, negative, *([] if both else [asked])])
        of_groups = (groups[one].astype(np.int32) for one in (positive, negative))
        return tokens.once(texts, chunk), EPRBatch(tokens[asked] if both else None, *of_groups)

    if data.fixed:
        apply = beside_fixed(encoder.apply, data.fixed.weight)
    else:
        apply = unit_length(encoder, [example.input for example in data.bank[:8]])
    objective = partial(
        epr_objective,
        encode=over_devices(apply),
        temperature=config.temperature,
        train_context=config.train_context,
    )
    cache = GradientCache(apply, names[-1], objective)
    # examples that are candidates of several queries are encoded once
    asked = np.concatenate([(first_query + held_out)[:, None], candidates[held_out]], axis=1)
    texts = tokens.once(asked, _HELD_OUT_TEXTS)

    def quality(params: Mapping[str, Any]) -> np.ndarray:
        sides = [cache.vectors(params[name], texts) for name in names]
        relevance = np.einsum("qd,qcd->qc", sides[0][:, 0], sides[-1][:, 1:])
        return ranking_quality(relevance, data.scores[held_out])

    return fit(
        folder,
        dict.fromkeys(names, encoder.params),
        lambda params, batch, key: cache(params, batch[0], batch[1], key),
        batch,
        quality,
        instances=len(training),
        config=config,
        seed=seed,
        what=f"training {name}",
    )
