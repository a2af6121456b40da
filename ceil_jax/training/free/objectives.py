"""Objectives of an adapter: similarities of all outputs, or an LM's scores of single examples or of sets.

An objective draws, on the host, which examples of the bank a step sees, and gives the loss of a batch of B queries
over the mapped vectors. Anything with these three attributes is an objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.free.output_similarity import OutputSimilarity
from ceil_jax.training.losses import SetScores, epr_contrastive_loss


class Drawn(NamedTuple):
    """The examples that one step sees."""

    examples: Int[np.ndarray, " m"] | Int[np.ndarray, "b n"]
    """Rows of the bank: the same for all queries of the batch, or some for each."""
    given: Any
    """Arrays that the loss takes beside the vectors."""


class Objective(Protocol):
    """An objective of an adapter."""

    @property
    def positions(self) -> Int[np.ndarray, " q"]:
        """Rows of the bank that are the training queries."""
        ...

    def draw(self, generator: np.random.Generator, queries: Int[np.ndarray, " b"]) -> Drawn:
        """Return the examples for a batch of query numbers."""
        ...

    def loss(
        self,
        queries: Float[Array, "b d"],
        examples: Float[Array, "... d"],
        given: Any,
        scale: Float[Array, ""],
    ) -> Float[Array, ""]:
        """Return the mean loss; `scale` times a dot product is a logit."""
        ...


@dataclass(frozen=True)
class Listwise:
    """Target similarity tuning on the whole bank: cross-entropy of softmax(scale · relevance) over many examples
    against softmax(similarity of outputs / temperature). TST: Poesia et al., ICLR 2022; the listwise loss is ours."""

    similarity: OutputSimilarity
    count: int
    """Rows of the bank; all of them are queries."""
    temperature: float = 0.1
    at_once: int = 2048
    """Examples that a step sees at most."""

    @property
    def positions(self) -> Int[np.ndarray, " q"]:
        return np.arange(self.count)

    def draw(self, generator: np.random.Generator, queries: Int[np.ndarray, " b"]) -> Drawn:
        examples = np.sort(generator.permutation(self.count)[: self.at_once])
        targets = self.similarity(queries, examples).astype(np.float32)
        targets[queries[:, None] == examples] = -np.inf  # a query is not its own example
        return Drawn(examples, targets)

    def loss(self, queries: Array, examples: Array, given: Array, scale: Array) -> Array:
        own = jnp.isneginf(given)
        target = jax.nn.softmax(given / self.temperature, axis=1)
        logits = jax.nn.log_softmax(jnp.where(own, -jnp.inf, scale * queries @ examples.T), axis=1)
        return -jnp.sum(target * jnp.where(own, 0, logits), axis=1).mean()


@dataclass(frozen=True)
class Singles:
    """EPR on an LM's scores of single examples: InfoNCE with in-batch negatives, a positive drawn from the best and a
    hard negative from the worst of a query's candidates (Rubin et al., NAACL 2022)."""

    positions: Int[np.ndarray, " q"]
    candidates: Int[np.ndarray, "q n"]
    """Rows of the bank."""
    scores: Float[np.ndarray, "q n"]
    """log P of the gold answer after each candidate."""
    pool: int = 5
    """Candidates from which a positive or a negative is drawn."""

    def draw(self, generator: np.random.Generator, queries: Int[np.ndarray, " b"]) -> Drawn:
        order = np.argsort(-self.scores[queries], axis=1, kind="stable")
        pool = min(self.pool, order.shape[1] // 2)
        best, worst = generator.integers(pool, size=(2, len(queries)))
        row = np.arange(len(queries))
        places = np.stack([order[row, best], order[row, -1 - worst]], axis=1)
        examples = np.take_along_axis(self.candidates[queries], places, axis=1)
        return Drawn(examples, examples.astype(np.int32))

    def loss(self, queries: Array, examples: Array, given: Array, scale: Array) -> Array:
        return epr_contrastive_loss(
            scale * queries, examples[:, 0], examples[:, 1:], given[:, 0], given[:, 1:]
        )


@dataclass(frozen=True)
class Sets:
    """CEIL on an LM's scores of sets: any registered loss of log det L'_S (Ye et al., ICML 2023)."""

    positions: Int[np.ndarray, " q"]
    candidates: CandidateSets
    scores: Float[np.ndarray, "q m"]
    """log P of the gold answer after each set."""
    set_loss: Callable[[SetScores], Float[Array, ""]]
    """`losses.ceil_loss(name)`."""
    trade_off: float
    """λ of the kernel."""

    def draw(self, generator: np.random.Generator, queries: Int[np.ndarray, " b"]) -> Drawn:
        shortlist = self.candidates.shortlist[queries]
        given = self.candidates.subsets[queries], self.scores[queries], shortlist >= 0
        return Drawn(np.maximum(shortlist, 0), given)

    def loss(self, queries: Array, examples: Array, given: Any, scale: Array) -> Array:
        from ceil_jax.training.ceil import set_log_probs

        subsets, scores, valid = given
        log_probs = set_log_probs(queries, examples, subsets, None, self.trade_off, valid)
        return jax.vmap(self.set_loss)(SetScores(log_probs, scores, (subsets >= 0).any(axis=-1))).mean()
