"""The training loop: resumable, for any loss; the checkpoint with the best held-out ranking quality is returned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
import optax
from tqdm.auto import tqdm

from ceil_jax.distributed.devices import global_mesh, jit_whole, whole
from ceil_jax.distributed.processes import together
from ceil_jax.encoders.tokenizers import TRAINING_LENGTHS, Tokens, pad, padded_length
from ceil_jax.errors import UserError
from ceil_jax.store.stage import Stage
from ceil_jax.training.checkpoints import TrainingState
from ceil_jax.training.gradient_cache import Texts

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

Params = Any
Batch = Any

QUALITY = "kendall_tau"
"""The held-out measure that decides which checkpoint is the best."""

_HELD_OUT = 100
"""Held-out queries at most: each evaluation encodes all of their candidates."""

_EVALUATIONS = 8
"""Held-out evaluations, and checkpoints, of a run, besides the one before the first step."""


class Trained(NamedTuple):
    """The result of training."""

    params: Params
    """The weights with the best held-out quality, which may be the starting ones."""
    history: list[dict[str, float]]
    """One row an evaluation: the step, the mean loss since the last evaluation, the held-out measures."""


def fit(
    stage: Stage,
    params: Params,
    gradient: Callable[[Params, Batch, jax.Array], tuple[jax.Array, Params]],
    batches: Callable[[int, np.ndarray], Batch],
    held_out: Callable[[Params], dict[str, float]],
    *,
    instances: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    what: str,
) -> Trained:
    """Train with Adam: the learning rate rises linearly over 10 % of the steps, then falls linearly to 0.

    A stopped run continues from its last checkpoint and ends with the same weights, because batches and dropout keys
    depend on the seed and the step alone. The released code warms up over 1,300 steps whatever the length of the run,
    so that short runs never leave the warm-up; we scale it.

    A step spans all devices of all processes, each of which holds all parameters; `gradient` decides which part of it
    is split over them (`devices.over_devices`), so that a batch's loss and gradient are those of one device.

    Args:
        stage: its scratch folder holds the checkpoints.
        params: the starting weights.
        gradient: (params, batch, dropout key) → (loss, its gradient with respect to the params), see `gradient_of`.
        batches: (step, numbers of the queries int [B]) → batch.
        held_out: params → measures, among them `kendall_tau`.
        instances: training queries. A batch is always full: the last one of an epoch begins the next epoch.
        epochs: passes over the training queries.
        batch_size: queries a step.
        learning_rate: peak of the schedule.
        seed: of the order of batches and of dropout.
        what: what messages call this training.

    Raises:
        UserError: the loss is not finite.
    """
    params = jax.device_put(jax.tree.map(np.asarray, params), whole(global_mesh()))
    batch_size = min(batch_size, instances)
    steps = max(1, math.ceil(instances * epochs / batch_size))
    every = max(1, math.ceil(steps / _EVALUATIONS))
    optimiser = optax.adam(_warmup_and_decay(learning_rate, steps))

    @jit_whole
    def update(params: Params, state: Any, slope: Params) -> tuple[Params, Any]:
        change, state = optimiser.update(slope, state, params)
        return optax.apply_updates(params, change), state

    def save(step: int, row: dict[str, float]) -> None:
        kept.save(step, {"params": params, "state": state}, row, row[QUALITY])

    state = jit_whole(optimiser.init)(params)
    with together(what), TrainingState(stage, every, {"params": params, "state": state}) as kept:
        last = kept.step
        if last is None:
            last = 0
            save(0, held_out(params))
        else:
            restored = jax.device_put(kept.last(), whole(global_mesh()))
            params, state = restored["params"], restored["state"]

        key = jax.random.key(seed)
        losses: list[float] = []
        with tqdm(total=steps, initial=last, desc=what) as bar:
            for step in range(last, steps):
                batch = batches(step, _rows(step, instances, batch_size, seed))
                value, slope = gradient(params, batch, jax.random.fold_in(key, step))
                params, state = update(params, state, slope)
                losses.append(float(value))
                if not math.isfinite(losses[-1]):
                    raise UserError(
                        f"{what}: the loss is {losses[-1]} at step {step}; lower the learning rate"
                    )
                if (step + 1) % every == 0 or step + 1 == steps:
                    row = held_out(params)
                    mean = float(np.mean(losses))
                    save(step + 1, {"loss": mean, **row})
                    losses = []
                    bar.set_postfix(loss=f"{mean:.4f}", tau=f"{row[QUALITY]:.3f}")
                bar.update()
        return Trained(kept.best()["params"], kept.history)


def _warmup_and_decay(peak: float, steps: int) -> optax.Schedule:
    warmup = max(1, steps // 10)
    rise, fall = optax.linear_schedule(0.0, peak, warmup), optax.linear_schedule(peak, 0.0, steps - warmup)
    return optax.join_schedules([rise, fall], [warmup])


def gradient_of(loss: Callable[..., jax.Array]) -> Callable[..., tuple[jax.Array, Params]]:
    """Return the compiled (loss, gradient with respect to its first argument), for a backward pass that fits in
    memory."""
    return jit_whole(jax.value_and_grad(loss))


class TokenTable:
    """Texts that are tokenised once. Batches are padded to one of a few lengths, so that few shapes compile."""

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        self._longest, self._pad_id = min(encoder.max_length, TRAINING_LENGTHS[-1]), encoder.tokenizer.pad_id
        self._ids = encoder.tokenizer(list(texts), self._longest)

    def __getitem__(self, rows: np.ndarray) -> Tokens:
        """Return the tokens of the texts numbered `rows`, int32 [*rows.shape, T]."""
        ids = [self._ids[row] for row in rows.reshape(-1)]
        length = padded_length(max(map(len, ids)), self._longest, TRAINING_LENGTHS)
        tokens = pad(ids, length, self._pad_id)
        return Tokens(*(np.reshape(leaf, (*rows.shape, -1)) for leaf in tokens))

    def once(self, rows: np.ndarray, size: int) -> Texts:
        """Return each of the texts numbered `rows` once, in chunks of at most `size` texts.

        Texts of similar length share a chunk, so that little is padding; the last chunk is filled up with copies of
        its last text.
        """
        texts, place = np.unique(rows, return_inverse=True)
        size = min(size, len(texts))
        order = np.argsort([len(self._ids[text]) for text in texts], kind="stable")
        chunks = np.pad(order, (0, -len(order) % size), mode="edge").reshape(-1, size)
        return Texts([self[texts[chunk]] for chunk in chunks], np.argsort(order)[place].reshape(rows.shape))


def _rows(step: int, instances: int, batch_size: int, seed: int) -> np.ndarray:
    """The queries of one step: shuffled epochs are laid end to end and cut into full batches."""
    places = range(step * batch_size, (step + 1) * batch_size)
    epochs = {place // instances for place in places}
    orders = {epoch: np.random.default_rng([seed, epoch]).permutation(instances) for epoch in epochs}
    return np.array([orders[place // instances][place % instances] for place in places])


def split_held_out(count: int, seed: int, seen: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return (training, held-out) query numbers; a tenth, 1 to 100, is held out to choose the checkpoint.

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
    out = min(max(1, count // 10), _HELD_OUT)
    unseen = order if seen is None or seen.all() else order[~seen[order]]
    held_out = np.sort(unseen[:out])
    return np.setdiff1d(order, held_out), held_out
