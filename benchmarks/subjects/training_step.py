"""CEIL's training step from vectors to gradients, without the encoder that both contenders share.

Ours takes the M blocks k × k of each instance out of its n × n matrix; with frozen contexts their
log dets are computed before training, once. The peer forms the kernel of all unique contexts of the
batch for every query, as the released code does, in torch: its [B, U, U] tensors, four of 10 GiB
with their gradients at B = 64, do not fit 20 GiB, so on a CPU the comparison is at B = 32, where
the peer's work is an eighth (B U², and U grows with B).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import workloads
from benchmarks.harness import OURS, Case, Disagreement, Settings
from benchmarks.peers.all_pairs import AllPairs
from ceil_jax.dpp.kernel import block_log_dets
from ceil_jax.training.ceil import set_log_probs
from ceil_jax.training.losses import SetScores, pairwise_margin_loss

BATCH = 64
N = 100
SUBSETS = 50
K = 16
DIM = 768
BANK = 44_000
TRADE_OFF = 0.1

TOLERANCE = 2e-3
"""The largest relative difference of the loss and of the gradient's length: both contenders compute in float32."""


def cases(settings: Settings) -> Iterator[Case]:
    sizes = (
        (4,) if settings.small else (BATCH,) if settings.device == "gpu" else (BATCH // 2, BATCH)
    )
    for batch in sizes:
        for learned in (False, True):
            with_peer = batch == sizes[0]
            yield _case(settings, batch, learned, with_peer)


def _case(settings: Settings, batch: int, learned: bool, with_peer: bool) -> Case:
    n, m, k, d, bank = (20, 6, 4, 32, 200) if settings.small else (N, SUBSETS, K, DIM, BANK)
    rng = np.random.default_rng(0)
    items = workloads.bank(rng, bank, d)
    queries = workloads.queries(rng, items, batch)
    shortlists = np.stack([rng.permutation(bank)[:n] for _ in range(batch)]).astype(np.int32)
    subsets = np.stack([[rng.permutation(n)[:k] for _ in range(m)] for _ in range(batch)]).astype(
        np.int32
    )
    lm_scores = rng.standard_normal((batch, m), np.float32)
    arrays = tuple(map(jnp.asarray, (queries, items[shortlists], subsets, lm_scores)))
    if learned:
        run = partial(learned_step, *arrays)
    else:
        run = partial(frozen_step, *arrays, jax.vmap(block_log_dets)(arrays[1], arrays[2]))
    contenders: dict[str, Any] = {OURS: run}
    if with_peer:
        contenders["all pairs"] = AllPairs(
            queries, items, shortlists, subsets, lm_scores, TRADE_OFF, learned, settings.device
        )
    wanted = {"all pairs": 10} if with_peer else {}
    return Case(
        f"B = {batch}, contexts {'learned' if learned else 'frozen'}",
        contenders,
        same_gradients,
        at_least=wanted,
        memory=not settings.small,
        less_memory={"all pairs": 20} if with_peer and not settings.small else {},
    )


@jax.jit
def frozen_step(
    queries: jax.Array,
    items: jax.Array,
    subsets: jax.Array,
    lm_scores: jax.Array,
    log_dets: jax.Array,
) -> dict[str, Any]:
    loss, gradient = jax.value_and_grad(_loss)(
        queries, items, subsets, lm_scores, log_dets, unit=True
    )
    return {"loss": loss, "queries": gradient}


@jax.jit
def learned_step(
    queries: jax.Array, items: jax.Array, subsets: jax.Array, lm_scores: jax.Array
) -> dict[str, Any]:
    def loss(queries: jax.Array, items: jax.Array) -> jax.Array:
        return _loss(queries, items, subsets, lm_scores, log_dets=None, unit=False)

    value, (gradient, of_items) = jax.value_and_grad(loss, argnums=(0, 1))(queries, items)
    return {"loss": value, "queries": gradient, "items": of_items}


def _loss(
    queries: jax.Array,
    items: jax.Array,
    subsets: jax.Array,
    lm_scores: jax.Array,
    log_dets: jax.Array | None,
    unit: bool,
) -> jax.Array:
    ours = set_log_probs(queries, items, subsets, log_dets, TRADE_OFF, unit_examples=unit)
    return jnp.mean(
        jax.vmap(pairwise_margin_loss)(SetScores(ours, lm_scores, jnp.ones(ours.shape, bool)))
    )


def same_gradients(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a line on the relative differences of the loss and of the queries' gradient."""
    furthest = 0.0
    for theirs in results.values():
        for what in ("loss", "queries"):
            ours = np.asarray(results[OURS][what])
            if not np.isfinite(ours).all():
                raise Disagreement(f"{what} is not finite")
            difference = np.linalg.norm(ours - theirs[what]) / np.linalg.norm(ours)
            furthest = max(furthest, float(difference))
    if furthest > TOLERANCE:
        raise Disagreement(f"loss or gradient differ by {furthest:.2g} of their size")
    return (
        f"loss and gradient equal to {furthest:.1g}"
        if len(results) > 1
        else "no peer fits at this size"
    )
