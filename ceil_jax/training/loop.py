"""The training loop: resumable, for any loss; it returns weights averaged over the end of training."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
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

log = logging.getLogger(__name__)

Params = Any
Batch = Any

QUALITY = "kendall_tau"
"""The held-out measure by which weights are compared."""

Measures = Mapping[str, Float[np.ndarray, " q"]]
"""Held-out measures by name, among them QUALITY: one value for each held-out query."""

_LEAST, _MOST = 100, 1000
"""Held-out queries of a training with at least 4 × 100 queries. Each evaluation encodes all of their candidates, and
fewer tell little about what was learnt."""

_BEYOND_NOISE = 2.0
"""Standard errors by which the best checkpoint has to be better than other weights: the best of several noisy numbers
is partly luck."""

_EVALUATIONS = 8
"""Held-out evaluations, and checkpoints, of a run, besides the one before the first step."""


_AVERAGED = 0.25
"""Share of the steps, at the end of training, over which weights are averaged."""


class Ending(NamedTuple):
    """Which weights a training ended with, and how well each choice ranked held-out sets."""

    kept: str
    """average (weights averaged over the end of training), best (the checkpoint that ranked held-out sets best) or
    start (the starting weights)."""
    quality: dict[str, float]
    """Mean held-out QUALITY of each choice."""

    @property
    def learnt(self) -> tuple[float, float]:
        """Held-out QUALITY before training, and of the weights that training ended with."""
        return self.quality["start"], self.quality[self.kept]


class Trained(NamedTuple):
    """The result of training."""

    params: Params
    """The weights that training ends with (`ending`)."""
    history: list[dict[str, float]]
    """One row an evaluation: the step, the mean loss since the last evaluation, the held-out measures of the weights
    at that step."""
    ending: Ending
    """Which weights these are."""


def fit(
    folder: Path,
    params: Params,
    gradient: Callable[[Params, Batch, jax.Array], tuple[jax.Array, Params]],
    batches: Callable[[int, np.ndarray], Batch],
    held_out: Callable[[Params], Measures],
    *,
    instances: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    what: str,
    clip: float | None = None,
    as_used: Callable[[Params], Measures] | None = None,
) -> Trained:
    """Train with Adam: the learning rate rises linearly over 10 % of the steps, then falls linearly to 0.

    A stopped run continues from its last checkpoint and ends with the same weights, because batches and dropout keys
    depend on the seed and the step alone. The released code warms up over 1,300 steps whatever the length of the run,
    so that short runs never leave the warm-up; we scale it. Weights are averaged over the last quarter of the steps
    (Izmailov et al., UAI 2018); `ending` says when others are returned.

    A step spans all devices, each of which holds all parameters; `gradient` decides which part of it is split over
    them (`devices.over_devices`), so that a batch's loss and gradient are those of one device.

    Args:
        folder: holds the checkpoints.
        params: the starting weights.
        gradient: (params, batch, dropout key) → (loss, its gradient with respect to the params), see `gradient_of`.
        batches: (step, numbers of the queries int [B]) → batch.
        held_out: params → measures of each held-out query, among them `kendall_tau`.
        instances: training queries. A batch is always full: the last one of an epoch begins the next epoch.
        epochs: passes over the training queries.
        batch_size: queries a step.
        learning_rate: peak of the schedule.
        seed: of the order of batches and of dropout.
        what: the name of this training in messages.
        clip: the largest global norm of a step's gradient; by default gradients are not clipped.
        as_used: like `held_out`, with the bank encoded as at inference, which is slower. The final weights are chosen
            by it. Default: `held_out`.

    Raises:
        UserError: the loss is not finite.
    """
    start = params = jax.device_put(jax.tree.map(np.asarray, params), whole(device_mesh()))
    average = start
    batch_size = min(batch_size, instances)
    steps = step_count(instances, epochs, batch_size)
    every = max(1, math.ceil(steps / _EVALUATIONS))
    optimiser = _optimiser(_warmup_and_decay(learning_rate, steps), clip)

    averaged_from = steps - max(1, int(_AVERAGED * steps))

    @jit_whole
    def update(
        params: Params, state: Any, average: Params, slope: Params, share: jax.Array
    ) -> tuple[Params, Any, Params]:
        change, state = optimiser.update(slope, state, params)
        params = optax.apply_updates(params, change)
        average = jax.tree.map(lambda mean, one: mean + share * (one - mean), average, params)
        return params, state, average

    def tree() -> dict[str, Any]:
        return {"params": params, "state": state, "average": average}

    state = jit_whole(optimiser.init)(params)
    with TrainingState(folder, tree()) as kept:
        last = kept.step
        if last is None:
            last = 0
            row = means(held_out(params))
            kept.save(0, tree(), row, row[QUALITY])
        else:
            restored = jax.device_put(kept.last(), whole(device_mesh()))
            params, state, average = (restored[name] for name in ("params", "state", "average"))

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
                    row = {"loss": mean, **means(held_out(params))}
                    kept.save(step + 1, tree(), row, row[QUALITY])
                    losses = []
                    bar.set_postfix(loss=f"{mean:.4f}", tau=f"{row[QUALITY]:.3f}")
                bar.update()
        from_start = max(kept.history, key=lambda row: row[QUALITY])["step"] == 0
        best = None if from_start else jax.device_put(kept.best()["params"], whole(device_mesh()))
        chosen, how = ending(average, best, start, as_used or held_out, what)
        return Trained(chosen, kept.history, how)


def step_count(instances: int, epochs: int, batch_size: int) -> int:
    """Return the steps of a training on `instances` queries, without those held out."""
    return max(1, math.ceil(instances * epochs / min(batch_size, instances)))


def _optimiser(learning_rate: optax.Schedule, clip: float | None) -> optax.GradientTransformation:
    adam = optax.adam(learning_rate)
    return adam if clip is None else optax.chain(optax.clip_by_global_norm(clip), adam)


def _warmup_and_decay(peak: float, steps: int) -> optax.Schedule:
    warmup = max(1, steps // 10)
    rise, fall = optax.linear_schedule(0.0, peak, warmup), optax.linear_schedule(peak, 0.0, steps - warmup)
    return optax.join_schedules([rise, fall], [warmup])


def gradient_of(loss: Callable[..., jax.Array]) -> Callable[..., tuple[jax.Array, Params]]:
    """Return the compiled (loss, gradient with respect to its first argument), for a backward pass that fits in
    memory."""
    return jit_whole(jax.value_and_grad(loss))


def _rows(step: int, instances: int, batch_size: int, seed: int) -> np.ndarray:
    """The queries of one step: shuffled epochs are laid end to end and cut into full batches."""
    places = range(step * batch_size, (step + 1) * batch_size)
    epochs = {place // instances for place in places}
    orders = {epoch: np.random.default_rng([seed, epoch]).permutation(instances) for epoch in epochs}
    return np.array([orders[place // instances][place % instances] for place in places])


def means(measures: Measures) -> dict[str, float]:
    """Return the mean of each measure over the held-out queries."""
    return {name: float(np.mean(values)) for name, values in measures.items()}


def better_beyond_noise(one: Float[np.ndarray, " q"], other: Float[np.ndarray, " q"]) -> bool:
    """Return whether `one` is better than `other` by more than two standard errors, paired over the queries.

    A single query gives no standard error, so that nothing is better beyond noise there.

    >>> better_beyond_noise(np.array([0.5, 0.7, 0.6]), np.array([0.1, 0.2, 0.2]))
    True
    """
    gain = np.asarray(one, np.float64) - other
    if len(gain) < 2:
        return False
    return bool(gain.mean() > _BEYOND_NOISE * gain.std(ddof=1) / np.sqrt(len(gain)))


def ending(
    average: Any,
    best: Any | None,
    start: Any,
    held_out: Callable[[Any], Measures],
    what: str,
) -> tuple[Any, Ending]:
    """Return the weights that training ends with, and how they were chosen.

    They are the averaged weights or the start, whichever ranks held-out sets better: a training too short to learn
    from moves the weights all the same. The checkpoint that ranked them best, partly by luck, takes their place only
    where it is better beyond noise (`better_beyond_noise`).

    Args:
        average: weights averaged over the end of training.
        best: the checkpoint with the best QUALITY; None where that is the start.
        start: the starting weights.
        held_out: weights → measures of each held-out query.
        what: the name of this training in messages.
    """
    choices = {"start": start, "best": best, "average": average}
    weights = {name: one for name, one in choices.items() if one is not None}
    found = {name: held_out(one)[QUALITY] for name, one in weights.items()}
    found.setdefault("best", found["start"])
    quality = means(found)
    kept = "start" if quality["average"] <= quality["start"] else "average"
    if best is not None and better_beyond_noise(found["best"], found[kept]):
        kept = "best"
    log.info(
        "%s: held-out τ of the start %.3f, of the best checkpoint %.3f, of the averaged weights %.3f (%d queries); "
        "kept: %s",
        what,
        *(quality[name] for name in ("start", "best", "average")),
        len(found["start"]),
        kept,
    )
    return weights[kept], Ending(kept, quality)


def held_out_count(count: int) -> int:
    """Return how many of `count` queries are held out: a quarter, up to 100, or a tenth, up to 1,000."""
    return min(max(1, min(_LEAST, count // 4), count // 10), _MOST)


def split_held_out(count: int, seed: int, seen: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return (training, held-out) query numbers.

    Args:
        count: the number of queries.
        seed: of the split.
        seen: bool [count]: queries that the starting weights were trained on, whose ranking says nothing about other
            queries. They are held out only if all queries are seen.

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
