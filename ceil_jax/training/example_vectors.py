"""The vectors of examples in a training on sets: frozen, or encoded in every step.

`FrozenExamples` keep the vectors of the starting weights: log det S_S never changes, and a step
encodes only queries. `LearningExamples` are encoded in every step, each text once, by the weights
that are trained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ceil_jax.distributed.devices import jit_whole
from ceil_jax.dpp.kernel import block_log_dets
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.gradient_cache import GradientCache
from ceil_jax.training.token_table import TokenTable

_CHUNK = 64
"""Number of texts in a forward and backward pass, if the example encoder is trained."""

Params = Mapping[str, Any]
"""Weights by side: "query", and "context" if examples have their own."""

SetObjective = Callable[..., Float[Array, ""]]
"""A function (params, vectors of the examples [B, n, D], batch, dropout key) → loss of the batch."""


class ExamplesOfSets(NamedTuple):
    """The examples of some candidate sets of B queries, M sets of k for each query."""

    source: Any
    """The source of the vectors, as an argument of `ExampleVectors.vectors` and
    `ExampleVectors.gradient`."""
    subsets: Int[np.ndarray, "b m k"]
    """The examples of each set, as positions among the n examples of its query; −1 at empty
    positions."""
    valid: Bool[np.ndarray, "b n"]
    """False at positions without an example."""
    log_dets: Float[np.ndarray, "b m"] | None
    """log det S_S of each set if it is known beforehand, otherwise None."""


@runtime_checkable
class ExampleVectors(Protocol):
    """The way in which a training obtains the vectors of the examples in its candidate sets."""

    def of_sets(
        self, queries: Int[np.ndarray, " b"], sets: Int[np.ndarray, "b m"]
    ) -> ExamplesOfSets:
        """Return the examples of some candidate sets.

        Args:
            queries: numbers of the training queries of a batch.
            sets: numbers of some candidate sets of each query.
        """

    def vectors(self, params: Params, source: Any) -> Float[np.ndarray, "b n d"]:
        """Return the examples' vectors, without dropout."""

    def gradient(
        self, params: Params, source: Any, batch: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Mapping[str, Any]]:
        """Return the loss of a batch and its gradient with respect to the params.

        Args:
            params: the weights.
            source: `ExamplesOfSets.source`.
            batch: the other arguments of the objective.
            key: dropout key.
        """


class FrozenExamples:
    """Examples that keep the vectors of the starting weights.

    A batch holds all of a query's shortlist.

    Args:
        objective: the loss of a batch.
        vectors: the bank's vectors by the starting weights, of any length, float32 [bank, D]. They
            are made unit rows here, once, so that no step has to.
        candidates: the candidate sets of all training queries; log det S_S of each is computed
            once.
    """

    def __init__(
        self,
        objective: SetObjective,
        vectors: Float[np.ndarray, "bank d"],
        candidates: CandidateSets,
    ) -> None:
        log_dets_of = jax.jit(block_log_dets)
        self._bank = unit_rows(vectors)
        self._candidates = candidates
        self._log_dets = np.stack(
            [
                np.asarray(log_dets_of(self._bank[shortlist], subsets))
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
    """Examples that are encoded in every step: those in the sets of the step, each text once.

    The maximum of r is then taken over these examples and not over the shortlist; this does not
    change the order of sets of one size.

    Args:
        objective: the loss of a batch.
        encode: (weights, a chunk of texts, key=dropout key) → vectors.
        side: the side whose weights encode examples, "query" or "context".
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
        # the members of a query's sets one after the other, [b, m · k]: positions in the shortlist,
        # then in the bank
        in_shortlist = subsets.reshape(len(queries), -1)
        in_bank = np.take_along_axis(shortlist, np.maximum(in_shortlist, 0), axis=1)
        # the sets as positions among these members, [m, k]: the same for every query
        members = np.arange(in_shortlist.shape[1], dtype=np.int32).reshape(subsets.shape[1:])
        return ExamplesOfSets(
            source=self._bank.once(in_bank, _CHUNK),
            subsets=np.where(subsets >= 0, members, -1),
            valid=in_shortlist >= 0,
            log_dets=None,
        )

    def vectors(self, params: Params, source: Any) -> Float[np.ndarray, "b n d"]:
        return self._cache.vectors(params[self._side], source)

    def gradient(
        self, params: Params, source: Any, batch: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Mapping[str, Any]]:
        return self._cache(params, source, batch, key)
