"""Exact k-DPP samples from one kernel, compared with dppy, which computes the eigenvectors once and
keeps them.

Ours computes them in every call. dppy stays on the CPU, in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import workloads
from benchmarks.harness import OURS, Case, Disagreement, Settings
from ceil_jax.distributed.devices import map_batches
from ceil_jax.dpp.distribution import log_elementary_symmetric, sample_k_dpp
from ceil_jax.dpp.kernel import conditional_kernel, relevance, similarity_from_features

SAMPLES = 1000
N = 100
K = 16
DIM = 384
TRADE_OFF = 0.1

BATCH = 512
"""Number of samples in one call on a CPU, where each core makes its own calls."""

SIGMAS = 5
"""The number of standard errors of an item's frequency, or of the mean log det, beyond which distributions differ."""


def cases(settings: Settings) -> Iterator[Case]:
    count, n, k = (300, 20, 4) if settings.small else (SAMPLES, N, K)
    rng = np.random.default_rng(0)
    items = workloads.bank(rng, n, DIM)
    query = workloads.queries(rng, items, 1)[0]
    kernel = conditional_kernel(
        relevance(jnp.asarray(query), jnp.asarray(items)),
        similarity_from_features(jnp.asarray(items)),
        TRADE_OFF,
    )
    keys = jax.random.split(jax.random.key(0), count)
    batch = BATCH if settings.device == "cpu" else count
    yield Case(
        f"{count:,} samples, n = {n}, k = {k}",
        {
            OURS: lambda: map_batches(_draw, (keys,), (kernel,), batch_size=batch, k=k),
            "dppy": _dppy(np.asarray(kernel, np.float64), count, k),
        },
        partial(same_distribution, np.asarray(kernel, np.float64), k),
        at_least={"dppy": 10},
        work={"samples": count},
    )


def _draw(keys: jax.Array, kernel: jax.Array, *, k: int) -> jax.Array:
    return jax.vmap(partial(sample_k_dpp, k=k), in_axes=(0, None))(keys, kernel)


def _dppy(kernel: np.ndarray, count: int, k: int) -> partial[np.ndarray]:
    from dppy.finite_dpps import FiniteDPP

    def draw() -> np.ndarray:
        dpp = FiniteDPP("likelihood", L=kernel)
        random = np.random.RandomState(0)
        return np.array([dpp.sample_exact_k_dpp(size=k, random_state=random) for _ in range(count)])

    return partial(draw)


def same_distribution(kernel: np.ndarray, k: int, results: Mapping[str, np.ndarray]) -> str:
    """Check that every contender's item frequencies are the exact marginals, and that the mean log dets agree."""
    expected = marginals(kernel, k)
    log_dets = {}
    for name, samples in results.items():
        samples = np.asarray(samples)
        if samples.shape[1] != k or any(
            len(set(sample)) != k or min(sample) < 0 for sample in samples.tolist()
        ):
            raise Disagreement(f"{name}: a sample that is no set of {k} items")
        frequency = np.bincount(samples.ravel(), minlength=len(kernel)) / len(samples)
        deviation = np.sqrt(np.maximum(expected * (1 - expected), 1e-3) / len(samples))
        furthest = np.abs((frequency - expected) / deviation).max()
        if furthest > SIGMAS:
            raise Disagreement(
                f"{name}: an item's frequency is {furthest:.1f} sigma from its probability"
            )
        log_dets[name] = [
            np.linalg.slogdet(kernel[np.ix_(sample, sample)])[1] for sample in samples
        ]
    for name, values in log_dets.items():
        ours = log_dets[OURS]
        error = np.hypot(np.std(ours), np.std(values)) / np.sqrt(len(values))
        if abs(np.mean(ours) - np.mean(values)) > SIGMAS * error:
            raise Disagreement(
                f"{name}: mean log det {np.mean(values):.3f}, {OURS} {np.mean(ours):.3f}"
            )
    return "frequencies within 5 sigma of the exact marginals, mean log dets of each other"


def marginals(kernel: np.ndarray, k: int) -> np.ndarray:
    """Return P(i ∈ S) of the k-DPP: Σ_j v_ij² λ_j e_{k−1}(λ without λ_j) / e_k(λ) (Kulesza & Taskar 2012, 5.2)."""
    values, vectors = np.linalg.eigh(kernel)
    with jax.enable_x64(True):
        log_values = np.log(np.maximum(values, 1e-300))
        log_all = log_elementary_symmetric(jnp.asarray(log_values), k)[-1, k]
        others = np.stack([np.delete(log_values, j) for j in range(len(values))])
        without = jax.vmap(lambda rest: log_elementary_symmetric(rest, k - 1)[-1, k - 1])(others)
        probabilities = np.exp(log_values + np.asarray(without) - np.asarray(log_all))
    return np.asarray(vectors**2 @ probabilities)
