"""The training loop: resumable, for any loss; it returns weights averaged over the end of
training."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jaxtyping import Float

from ceil_jax.distributed.devices import device_mesh, jit_whole, whole
from ceil_jax.errors import UserError
from ceil_jax.store.progress import bar as progress_bar
from ceil_jax.training.checkpoints import TrainingState
from ceil_jax.training.config import CEILConfig, EPRConfig

log = logging.getLogger(__name__)

QUALITY = "kendall_tau"
"""The name in a history of the measure by which weights are compared."""

HeldOut = Callable[[Any], Float[np.ndarray, " q"]]
"""Parameters → how well each held-out query's candidates are ranked (`losses.ranking_quality`)."""

_LEAST, _MOST = 100, 1000
"""Held-out queries of a training with at least 4 × 100 queries."""

_BEYOND_NOISE = 2.0
"""Standard errors by which the best checkpoint has to be better than other weights."""

_EVALUATIONS = 8
"""Held-out evaluations, and checkpoints, of a training, besides the one before the first step."""

_AVERAGED = 0.25
"""Share of the steps, at the end of training, over which weights are averaged."""


class Ending(NamedTuple):
    """The weights that a training ended with, and how well each choice ranked held-out sets."""

    kept: str
    """average (weights averaged over the end of training), best (the checkpoint that ranked
    held-out sets best) or start (the starting weights)."""
    quality: dict[str, float]
    """Mean held-out τ of each choice."""


class Trained(NamedTuple):
    """The result of training."""

    params: Any
    """The weights that training ends with (`ending`)."""
    history: list[dict[str, float]]
    """One row an evaluation: the step, the mean loss since the last evaluation, the mean held-out
    τ."""
    ending: Ending


def fit(
    folder: Path,
    params: Any,
    gradient: Callable[[Any, Any, jax.Array], tuple[jax.Array, Any]],
    batches: Callable[[int, np.ndarray], Any],
    held_out: HeldOut,
    *,
    instances: int,
    config: EPRConfig | CEILConfig,
    seed: int,
    what: str,
    as_used: HeldOut | None = None,
) -> Trained:
    """Train with Adam: the learning rate rises linearly over 10 % of the steps, then falls linearly
    to 0.

    A stopped training continues from its last checkpoint and ends with the same weights, because
    batches and dropout keys depend on the seed and the step alone. The released code warms up over
    1,300 steps whatever their number. Weights are averaged over the last quarter of the steps
    (Izmailov et al., UAI 2018); `ending` says when others are returned. Every device holds all
    parameters; `gradient` decides what is split over them (`devices.over_devices`).

    Args:
        folder: holds the checkpoints.
        params: the starting weights.
        gradient: (params, batch, dropout key) → (loss, its gradient with respect to the params).
        batches: (step, numbers of the queries int [B]) → batch.
        held_out: params → τ of each held-out query.
        instances: training queries. A batch is always full: the last one of an epoch begins the
            next epoch.
        config: epochs, queries a step, peak of the learning rate, and the largest norm of a
            gradient.
        seed: of the order of batches and of dropout.
        what: the name of this training in messages.
        as_used: like `held_out`, with the bank encoded as at inference; the final weights are
            chosen by it. Default: `held_out`.

    Raises:
        UserError: the loss is not finite.
    """
    start = jax.device_put(jax.tree.map(np.asarray, params), whole(device_mesh()))
    params = average = best = start
    batch_size = min(config.batch_size, instances)
    steps = step_count(instances, config.epochs, batch_size)
    every = math.ceil(steps / _EVALUATIONS)
    warmup, peak = max(1, steps // 10), config.learning_rate
    rise, fall = (
        optax.linear_schedule(0.0, peak, warmup),
        optax.linear_schedule(peak, 0.0, steps - warmup),
    )
    optimiser = optax.adam(optax.join_schedules([rise, fall], [warmup]))
    if config.clip is not None:
        optimiser = optax.chain(optax.clip_by_global_norm(config.clip), optimiser)
    averaged_from = steps - max(1, int(_AVERAGED * steps))

    @jit_whole
    def update(
        params: Any, state: Any, average: Any, slope: Any, share: jax.Array
    ) -> tuple[Any, Any, Any]:
        change, state = optimiser.update(slope, state, params)
        params = optax.apply_updates(params, change)
        average = jax.tree.map(lambda mean, one: mean + share * (one - mean), average, params)
        return params, state, average

    def tree() -> dict[str, Any]:
        return {"params": params, "state": state, "average": average, "best": best}

    state = jit_whole(optimiser.init)(params)
    with TrainingState(folder, tree()) as checkpoints:
        if checkpoints.last is None:
            checkpoints.save(0, tree(), {QUALITY: float(np.mean(held_out(params)))})
        else:
            params, state, average, best = (
                jax.device_put(checkpoints.last[name], whole(device_mesh())) for name in tree()
            )
        last = int(checkpoints.history[-1]["step"])

        key = jax.random.key(seed)
        losses: list[float] = []
        with progress_bar(steps, what, initial=last) as bar:
            for step in range(last, steps):
                batch = batches(step, _rows(step, instances, batch_size, seed))
                value, slope = gradient(params, batch, jax.random.fold_in(key, step))
                # 1 until averaging begins, then 1, 1/2, 1/3 …
                share = np.float32(1 / (max(step - averaged_from, 0) + 1))
                params, state, average = update(params, state, average, slope, share)
                losses.append(float(value))
                if not math.isfinite(losses[-1]):
                    raise UserError(
                        f"{what}: the loss is {losses[-1]} at step {step}; lower the learning rate"
                    )
                if (step + 1) % every == 0 or step + 1 == steps:
                    mean = float(np.mean(losses))
                    quality = float(np.mean(held_out(params)))
                    if quality > max(row[QUALITY] for row in checkpoints.history):
                        best = params
                    checkpoints.save(step + 1, tree(), {"loss": mean, QUALITY: quality})
                    losses = []
                    bar.set_postfix(loss=f"{mean:.4f}", tau=f"{quality:.3f}")
                bar.update()
        from_start = max(checkpoints.history, key=lambda row: row[QUALITY])["step"] == 0
        chosen, how = ending(
            average, None if from_start else best, start, as_used or held_out, what
        )
        return Trained(chosen, checkpoints.history, how)


def step_count(instances: int, epochs: int, batch_size: int) -> int:
    """Return the steps of a training on `instances` queries, without those held out."""
    return max(1, math.ceil(instances * epochs / min(batch_size, instances)))


def _rows(step: int, instances: int, batch_size: int, seed: int) -> np.ndarray:
    """The queries of one step: shuffled epochs are laid end to end and cut into full batches."""
    places = range(step * batch_size, (step + 1) * batch_size)
    epochs = {place // instances for place in places}
    orders = {
        epoch: np.random.default_rng([seed, epoch]).permutation(instances) for epoch in epochs
    }
    return np.array([orders[place // instances][place % instances] for place in places])


def better_beyond_noise(one: Float[np.ndarray, " q"], other: Float[np.ndarray, " q"]) -> bool:
    """Return whether `one` is better than `other` by more than two standard errors, paired over at
    least two queries.

    >>> better_beyond_noise(np.array([0.5, 0.7, 0.6]), np.array([0.1, 0.2, 0.2]))
    True
    """
    gain = np.asarray(one, np.float64) - other
    if len(gain) < 2:
        return False
    return bool(gain.mean() > _BEYOND_NOISE * gain.std(ddof=1) / np.sqrt(len(gain)))


def ending(
    average: Any, best: Any | None, start: Any, held_out: HeldOut, what: str
) -> tuple[Any, Ending]:
    """Return the weights that training ends with, and how they were chosen.

    They are the averaged weights or the start, whichever ranks held-out sets better. The checkpoint
    that ranked them best (None where that is the start), partly by luck, takes their place only
    where it is better beyond noise (`better_beyond_noise`).
    """
    choices = {"start": start, "best": best, "average": average}
    weights = {name: one for name, one in choices.items() if one is not None}
    found = {name: held_out(one) for name, one in weights.items()}
    found.setdefault("best", found["start"])
    quality = {name: float(np.mean(values)) for name, values in found.items()}
    chosen = "start" if quality["average"] <= quality["start"] else "average"
    if best is not None and better_beyond_noise(found["best"], found[chosen]):
        chosen = "best"
    log.info(
        "%s: held-out τ of the start %.3f, of the best checkpoint %.3f, of the averaged weights "
        "%.3f (%d queries); kept: %s",
        what,
        *(quality[name] for name in ("start", "best", "average")),
        len(found["start"]),
        chosen,
    )
    return weights[chosen], Ending(chosen, quality)


def held_out_count(count: int) -> int:
    """Return how many of `count` queries are held out: a quarter, up to 100, or a tenth, up to
    1,000."""
    return min(max(1, min(_LEAST, count // 4), count // 10), _MOST)


def split_held_out(
    count: int, seed: int, seen: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (training, held-out) numbers of `count` queries. Those that the starting weights were
    trained on (`seen`, bool [count]) are held out only if all are.

    Raises:
        UserError: fewer than two queries.
    """
    if count < 2:
        raise UserError(f"training needs at least 2 scored instances, got {count}")
    order = np.random.default_rng([seed, 1]).permutation(count)
    out = held_out_count(count)
    unseen = order if seen is None or seen.all() else order[~seen[order]]
    held_out = np.sort(unseen[:out])
    return np.setdiff1d(order, held_out), held_out
