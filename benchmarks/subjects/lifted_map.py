"""`jax.jit(jax.vmap(greedy_map_from_features))`, lifted as in the documentation, from features to
indices.

The peer is numpy's greedy MAP on kernels that are ready, a query at a time, so that forming them is
ours alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import workloads
from benchmarks.harness import OURS, Case, Disagreement, Settings
from benchmarks.peers import numpy_map
from ceil_jax.dpp.greedy import greedy_map_from_features
from ceil_jax.dpp.kernel import relevance

DIM = 384
TRADE_OFF = 0.05

TOLERANCE = 1e-2
"""The largest difference in log det of a set."""

SIZES = ((400, 100, 50, 5), (400, 100, 16, 5), (48, 800, 50, 3))
"""Cases as (queries, n, K, target for the speedup over numpy)."""


def cases(settings: Settings) -> Iterator[Case]:
    for count, n, k, wanted in SIZES:
        if settings.small:
            count = 6
            n = n // 5
            k = k // 4
        rng = np.random.default_rng(0)
        items = workloads.bank(rng, 4_000, 16 if settings.small else DIM)
        queries = workloads.queries(rng, items, count)
        # a neighbourhood each, whose items are alike
        nearest = np.argsort(-(queries @ items.T), axis=1)[:, :n]
        features = items[nearest]
        relevances = np.asarray(jax.vmap(relevance)(jnp.asarray(queries), jnp.asarray(features)))
        kernels = np.stack([_kernel(*pair) for pair in zip(features, relevances, strict=True)])
        lifted = jax.jit(jax.vmap(partial(greedy_map_from_features, k=k, trade_off=TRADE_OFF)))
        yield Case(
            f"{count} queries, n = {n}, K = {k}, d = {items.shape[1]}",
            {
                OURS: partial(_lifted, lifted, jnp.asarray(features), jnp.asarray(relevances)),
                "numpy on ready kernels": partial(_numpy, kernels, k),
            },
            partial(same_sets, kernels),
            at_least={"numpy on ready kernels": wanted},
            work={"queries": count},
        )


def _kernel(features: np.ndarray, relevances: np.ndarray) -> np.ndarray:
    root_quality = np.exp((relevances - relevances.max()) / (2 * TRADE_OFF))
    return root_quality[:, None] * ((1 + features @ features.T) / 2) * root_quality


def _lifted(lifted: jax.stages.Wrapped, features: jax.Array, relevances: jax.Array) -> np.ndarray:
    return np.asarray(lifted(features, relevances).items)


def _numpy(kernels: np.ndarray, k: int) -> np.ndarray:
    return np.array([numpy_map.greedy_map(kernel, k) for kernel in kernels])


def _log_det(kernel: np.ndarray, chosen: np.ndarray) -> float:
    return float(np.linalg.slogdet(kernel[np.ix_(chosen, chosen)].astype(np.float64))[1])


def same_sets(kernels: np.ndarray, results: Mapping[str, np.ndarray]) -> str:
    """Check that the sets are the same, or that their log dets in float64 are."""
    ours, theirs = results.values()
    differ = np.flatnonzero((np.sort(ours, axis=1) != np.sort(theirs, axis=1)).any(axis=1))
    for row in differ:
        log_dets = [_log_det(kernels[row], sets[row]) for sets in (ours, theirs)]
        if abs(log_dets[0] - log_dets[1]) > TOLERANCE:
            raise Disagreement(f"query {row}: log det {log_dets[0]} and {log_dets[1]}")
    return f"same sets but for {len(differ)} ties among {len(ours)} queries"
