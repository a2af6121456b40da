"""Two ways in which a training on sets gets the vectors of the sets' examples.

`FrozenExamples` have the vectors of the starting weights: log det S_S never changes, and a step
encodes queries only. `LearningExamples` are encoded in every step, each text once, by weights that
learn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ceil_jax.distributed.devices import jit_whole
from ceil_jax.dpp.kernel import block_log_dets
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.gradient_cache import GradientCache, TokenTable

_CHUNK = 64
"""Texts a forward and backward pass, where the encoder of examples learns."""

Params = Mapping[str, Any]
"""Weights by the side that they encode: "query", and "context" where examples have their own."""

SetObjective = Callable[..., Float[Array, ""]]
"""(params, vectors of the examples [B, n, D], batch, dropout key) → the loss of a batch."""


class ExamplesOfSets(NamedTuple):
    """The examples that some candidate sets of B queries hold, M sets of k for each query."""

    source: Any
    """The origin of their vectors, which `ExampleVectors.vectors` and `ExampleVectors.gradient`
    take."""
    subsets: Int[np.ndarray, "b m k"]
    """Each set's examples, as positions among the n of its query; −1 at empty positions."""
    valid: Bool[np.ndarray, "b n"]
    """False at positions without an example."""
    log_dets: Float[np.ndarray, "b m"] | None
    """log det S_S of each set where it is known beforehand, otherwise None."""


@runtime_checkable
class ExampleVectors(Protocol):
    """The way in which a training gets the vectors of the examples in its candidate sets."""

    def of_sets(
        self, queries: Int[np.ndarray, " b"], sets: Int[np.ndarray, "b m"]
    ) -> ExamplesOfSets:
        """Return the examples in candidate sets.

        Args:
            queries: numbers of the training queries of a batch.
            sets: numbers of some candidate sets of each.
        """

    def vectors(self, params: Params, source: Any) -> Float[np.ndarray, "b n d"]:
        """Return the examples' vectors, without dropout."""

    def gradient(
        self, params: Params, source: Any, batch: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Mapping[str, Any]]:
        """Return the loss of a batch and its gradient with respect to the params.

        Args:
            params: the weights.
            source: what the examples' vectors come from (`ExamplesOfSets.source`).
            batch: the rest of what the objective reads.
            key: of dropout.
        """


class FrozenExamples:
    """Examples with the vectors of the starting weights, all of a query's shortlist.

    Args:
        objective: the loss of a batch.
        vectors: the bank by the starting weights, unit rows, float32 [bank, D].
        candidates: the candidate sets of all training queries; log det S_S of each is computed here
            once.
    """

    def __init__(
        self,
        objective: SetObjective,
        vectors: Float[np.ndarray, "bank d"],
        candidates: CandidateSets,
    ) -> None:
        log_dets_of = jax.jit(block_log_dets)
        self._bank = vectors
        self._candidates = candidates
        self._log_dets = np.stack(
            [
                np.asarray(log_dets_of(vectors[shortlist], subsets))
                for shortlist, subsets in zip(*candidates, strict=True)
            ]
        )
        self._gradient = jit_whole(jax.value_and_grad(objective))

    def of_sets(
        self, queries: Int[np.ndarray, " b"], sets: Int[np.ndarray, "b m"]
    ) -> ExamplesOfSets:
        shortlist = self._candidates.shortlist[queries]
        return ExamplesOfSets(
            source=self._bank[shortlist],
            subsets=self._candidates.subsets[queries[:, None], sets],
            valid=shortlist >= 0,
            log_dets=self._log_dets[queries[:, None], sets],
        )

    def vectors(self, params: Params, source: Any) -> Float[np.ndarray, "b n d"]:
        return source

    def gradient(
        self, params: Params, source: Any, batch: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Mapping[str, Any]]:
        return self._gradient(params, source, batch, key)


class LearningExamples:
    """Examples that are encoded in every step: those of the sets asked for, each text once however
    many sets hold it.

    The maximum of r is then over these examples, not over the shortlist, which orders sets of one
    size alike.

    Args:
        objective: the loss of a batch.
        encode: (weights, a chunk of texts, key=dropout key) → vectors.
        side: whose weights encode examples, "query" or "context".
        bank: the texts of the bank.
        candidates: the candidate sets of all training queries.
    """

    def __init__(
        self,
        objective: SetObjective,
        encode: Callable[..., Float[Array, "c d"]],
        side: str,
        bank: TokenTable,
        candidates: CandidateSets,
    ) -> None:
        self._cache = GradientCache(encode, side, objective)
        self._side = side
        self._bank = bank
        self._candidates = candidates

    def of_sets(
        self, queries: Int[np.ndarray, " b"], sets: Int[np.ndarray, "b m"]
    ) -> ExamplesOfSets:
        shortlist = self._candidates.shortlist[queries]
        subsets = self._candidates.subsets[queries[:, None], sets]
        in_shortlist = subsets.reshape(len(queries), -1)
        members = np.take_along_axis(shortlist, np.maximum(in_shortlist, 0), axis=1)
        positions = np.arange(in_shortlist.shape[1], dtype=np.int32).reshape(subsets.shape[1:])
        return ExamplesOfSets(
            source=self._bank.once(members, _CHUNK),
            subsets=np.where(subsets >= 0, positions, -1),
            valid=in_shortlist >= 0,
            log_dets=None,
        )

    def vectors(self, params: Params, source: Any) -> Float[np.ndarray, "b n d"]:
        return self._cache.vectors(params[self._side], source)

    def gradient(
        self, params: Params, source: Any, batch: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Mapping[str, Any]]:
        return self._cache(params, source, batch, key)
