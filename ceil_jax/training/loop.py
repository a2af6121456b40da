"""The training loop for any loss.

It can be resumed, and averages weights over the end of training.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
import optax
from jaxtyping import Float, Int, PRNGKeyArray

from ceil_jax.distributed.devices import device_mesh, jit_whole, whole
from ceil_jax.errors import UserError
from ceil_jax.store.progress import bar as progress_bar
from ceil_jax.training.checkpoints import Checkpoint, Checkpoints
from ceil_jax.training.config import LoopSettings

log = logging.getLogger(__name__)

QUALITY = "kendall_tau"
"""The name, in a training's history, of the measure by which weights are compared."""

HeldOut = Callable[[Any], Float[np.ndarray, " q"]]
"""Weights → Kendall's τ of each held-out query's candidates (`losses.ranking_quality`)."""

CHECKPOINT_SECONDS = 300.0
"""Seconds between two checkpoints, which is the most work that is lost when a training is
stopped."""

_BEYOND_NOISE = 2.0
"""The number of standard errors by which the best evaluation's weights must be better to be
chosen."""

_EVALUATIONS = 8
"""The maximum number of held-out evaluations of a training, besides the one before the first step;
a training of fewer steps has one after each step."""

_AVERAGED = 0.25
"""The last share of the steps, over which weights are averaged."""


class Problem(Protocol):
    """The description of a training for `fit`.

    The starting weights, batches, gradients and the quality of weights.
    """

    @property
    def title(self) -> str:
        """The name of the method in messages."""

    @property
    def start(self) -> Mapping[str, Any]:
        """The starting weights by name, a pytree of arrays."""

    @property
    def training_positions(self) -> Int[np.ndarray, " t"]:
        """The numbers of the queries that are trained on; `batch` receives positions among them."""

    def batch(self, step: int, rows: Int[np.ndarray, " b"]) -> Any:
        """Return the batch of a step, made of the training queries at the given positions.

        It depends only on the step and on seeds, so that a resumed training has the same batches.
        """

    def gradient(
        self, params: Any, batch: Any, key: PRNGKeyArray
    ) -> tuple[jax.Array, Mapping[str, Any]]:
        """Return the loss and its gradient with respect to the params; `key` is for dropout."""

    def quality(self, params: Any) -> Float[np.ndarray, " h"]:
        """Return Kendall's τ of each held-out query, with examples encoded as in training."""

    def quality_as_used(self, params: Any) -> Float[np.ndarray, " h"]:
        """Return Kendall's τ of each held-out query, with examples encoded as after training.

        The final weights are chosen by it.
        """


class Ending(NamedTuple):
    """The weights that a training ended with, and how well each choice ranked held-out sets."""

    kept: str
    """Which weights were kept. average: weights averaged over the end of training; best: the
    weights of the evaluation at which held-out sets were ranked best; start: the starting
    weights."""
    quality: dict[str, float]
    """Mean held-out Kendall's τ of each choice."""


class Trained(NamedTuple):
    """The result of training."""

    params: Any
    """The final weights (see `choose_weights`)."""
    history: list[dict[str, float]]
    """For each evaluation: the step, the mean loss since the last evaluation, and the mean held-out
    τ."""
    ending: Ending


class _State(NamedTuple):
    """The weights of a training after a step."""

    params: Any
    optimiser: Any
    average: Any
    """The mean of the weights since averaging began; before that, the current weights."""
    best: Any
    """The weights of the evaluation that ranked held-out queries best."""


def fit(
    problem: Problem,
    config: LoopSettings,
    *,
    seed: int,
    folder: Path,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Trained:
    """Train with Adam.

    The learning rate rises linearly over the first 10 % of the steps, then falls linearly to 0.

    The released code always warms up over 1,300 steps. Held-out queries are ranked before the first
    step and at most eight times during training, after equal numbers of steps. Weights are averaged
    over the last quarter of the steps (Izmailov et al., UAI 2018); `choose_weights` may take
    others. Every device holds all parameters; `problem.gradient` decides what is split over the
    devices (`devices.over_devices`).

    A stopped training continues from its last checkpoint and ends with the same weights, because
    batches and dropout keys depend only on the seed and the step.

    Args:
        problem: the training to run.
        config: epochs, queries in a step, peak of the learning rate, and the largest norm of a
            gradient. Every batch is full: the last one of an epoch is filled from the next epoch.
        seed: seeds the order of batches and dropout.
        folder: the folder of the checkpoint.
        checkpoint_seconds: seconds between two checkpoints, by default 300; with 0, every step
            writes one.

    Raises:
        UserError: the loss is not finite, or the disk is full.
    """
    name = f"training {problem.title}"
    instances = len(problem.training_positions)
    batch_size = min(config.batch_size, instances)
    steps = step_count(instances, config.epochs, batch_size)
    evaluated_every = math.ceil(steps / _EVALUATIONS)
    averaged_from = steps - max(1, int(_AVERAGED * steps))
    optimiser = adam(config, steps)
    update = _compiled_update(optimiser)
    key = jax.random.key(seed)

    start = _on_devices(jax.tree.map(np.asarray, problem.start))
    state = _State(start, jit_whole(optimiser.init)(start), average=start, best=start)
    history: list[dict[str, float]] = []
    losses: list[float] = []
    first_step = 0
    with Checkpoints(folder, state._asdict()) as checkpoints:
        saved_at = time.monotonic()
        if checkpoints.last is None:
            history.append({"step": 0, QUALITY: float(np.mean(problem.quality(start)))})
        else:
            first_step, weights, history, losses = checkpoints.last
            state = _State(**{part: _on_devices(weights[part]) for part in _State._fields})
        with progress_bar(steps, name, initial=first_step) as bar:
            for step in range(first_step, steps):
                batch = problem.batch(step, _rows(step, instances, batch_size, seed))
                dropout_key = jax.random.fold_in(key, step)
                loss, gradient = problem.gradient(state.params, batch, dropout_key)
                # 1 until averaging begins, then 1, 1/2, 1/3 …: the mean of all weights since then
                share = np.float32(1 / (max(step - averaged_from, 0) + 1))
                params, adam_state, average = update(
                    state.params, state.optimiser, state.average, gradient, share
                )
                state = _State(params, adam_state, average, state.best)
                losses.append(float(loss))
                if not math.isfinite(losses[-1]):
                    raise UserError(
                        f"{name}: the loss is {losses[-1]} at step {step}; lower the learning rate"
                    )
                if (step + 1) % evaluated_every == 0 or step + 1 == steps:
                    mean = float(np.mean(losses))
                    quality = float(np.mean(problem.quality(state.params)))
                    if quality > max(row[QUALITY] for row in history):
                        state = state._replace(best=state.params)
                    history.append({"step": step + 1, "loss": mean, QUALITY: quality})
                    losses = []
                    bar.set_postfix(loss=f"{mean:.4f}", tau=f"{quality:.3f}")
                if time.monotonic() - saved_at >= checkpoint_seconds:
                    checkpoints.save(Checkpoint(step + 1, state._asdict(), history, losses))
                    saved_at = time.monotonic()
                bar.update()
    best_row = max(history, key=lambda row: row[QUALITY])
    best = None if best_row["step"] == 0 else state.best
    params, ending = choose_weights(state.average, best, start, problem.quality_as_used, name)
    return Trained(params, history, ending)


def _compiled_update(
    optimiser: optax.GradientTransformation,
) -> Callable[..., tuple[Any, Any, Any]]:
    """Return the compiled function of a training step.

    It maps (weights, state of the optimiser, average, gradient, share of the new weights in the
    average) to the first three after the step.
    """

    @jit_whole
    def update(
        params: Any, state: Any, average: Any, gradient: Any, share: jax.Array
    ) -> tuple[Any, Any, Any]:
        change, state = optimiser.update(gradient, state, params)
        params = optax.apply_updates(params, change)
        average = jax.tree.map(lambda mean, leaf: mean + share * (leaf - mean), average, params)
        return params, state, average

    return update


def adam(config: LoopSettings, steps: int) -> optax.GradientTransformation:
    """Return Adam with a learning rate that rises over a tenth of the steps and then falls to 0.

    A gradient with a norm above `config.clip` is first scaled down to it.
    """
    warm_up = max(1, steps // 10)
    rise = optax.linear_schedule(0.0, config.learning_rate, warm_up)
    fall = optax.linear_schedule(config.learning_rate, 0.0, steps - warm_up)
    optimiser = optax.adam(optax.join_schedules([rise, fall], [warm_up]))
    if config.clip is None:
        return optimiser
    return optax.chain(optax.clip_by_global_norm(config.clip), optimiser)


def _on_devices(weights: Any) -> Any:
    return jax.device_put(weights, whole(device_mesh()))


def step_count(instances: int, epochs: int, batch_size: int) -> int:
    """Return the number of steps of a training on `instances` queries.

    Held-out ones are not counted.
    """
    return max(1, math.ceil(instances * epochs / min(batch_size, instances)))


def _rows(step: int, instances: int, batch_size: int, seed: int) -> np.ndarray:
    """The queries of one step: shuffled epochs are concatenated and cut into full batches."""
    positions = range(step * batch_size, (step + 1) * batch_size)
    epochs = {position // instances for position in positions}
    orders = {
        epoch: np.random.default_rng([seed, epoch]).permutation(instances) for epoch in epochs
    }
    return np.array([orders[position // instances][position % instances] for position in positions])


def better_beyond_noise(quality: Float[np.ndarray, " q"], other: Float[np.ndarray, " q"]) -> bool:
    """Return whether `quality` exceeds `other` by more than two standard errors.

    The error is that of their paired difference. False for fewer than two queries.

    >>> better_beyond_noise(np.array([0.5, 0.7, 0.6]), np.array([0.1, 0.2, 0.2]))
    True
    """
    gain = np.asarray(quality, np.float64) - other
    if len(gain) < 2:
        return False
    return bool(gain.mean() > _BEYOND_NOISE * gain.std(ddof=1) / np.sqrt(len(gain)))


def choose_weights(
    average: Any, best: Any | None, start: Any, held_out: HeldOut, name: str
) -> tuple[Any, Ending]:
    """Return the final weights of a training, and how they were chosen.

    They are the averaged weights or the start, whichever ranks held-out sets better. The weights of
    the best evaluation owe part of their lead to luck, so they are chosen only if they are better
    beyond noise (`better_beyond_noise`).

    Args:
        average: the averaged weights.
        best: the weights of the best evaluation; None if that is the start.
        start: the starting weights.
        held_out: weights → τ of each held-out query.
        name: the name of the training in the log.
    """
    weights = {"start": start, "average": average}
    if best is not None:
        weights["best"] = best
    tau = {choice: held_out(params) for choice, params in weights.items()}
    tau.setdefault("best", tau["start"])
    quality = {choice: float(np.mean(values)) for choice, values in tau.items()}
    chosen = "start" if quality["average"] <= quality["start"] else "average"
    if best is not None and better_beyond_noise(tau["best"], tau[chosen]):
        chosen = "best"
    log.info(
        "%s: held-out τ of the start %.3f, of the best evaluation %.3f, of the averaged weights "
        "%.3f (%d queries); kept: %s",
        name,
        quality["start"],
        quality["best"],
        quality["average"],
        len(tau["start"]),
        chosen,
    )
    return weights[chosen], Ending(chosen, quality)
