"""The training loop: any loss, resumable, best checkpoint by held-out ranking quality."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tqdm.auto import tqdm

from ceil_jax.disk import check_room, folder_sha256
from ceil_jax.errors import UserError
from ceil_jax.journal import Journal
from ceil_jax.runs import Stage
from ceil_jax.tokens import Tokens, pad

if TYPE_CHECKING:
    from ceil_jax.encoder import Encoder

log = logging.getLogger(__name__)

Params = Any
Batch = Any

QUALITY = "kendall_tau"
"""The held-out measure that picks the checkpoint."""

_EVALUATIONS = 8
"""Held-out evaluations and checkpoints a run, besides the one before the first step."""


class Trained(NamedTuple):
    """What training gave."""

    params: Params
    """The best by held-out quality, the starting weights included."""
    history: list[dict[str, float]]
    """One row an evaluation: step, loss (mean since the last), held-out measures."""


def fit(
    stage: Stage,
    params: Params,
    loss: Callable[[Params, Batch, jax.Array], jax.Array],
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
    """Adam, linear warm-up over 10 % of the steps, then linear decay to 0.

    A killed run continues from its last checkpoint and ends with the same weights: batches and dropout keys
    depend on the seed and the step alone. The released code warms up over 1,300 steps whatever the length
    of the run, so that small sets never leave the warm-up; we scale it.

    Args:
        loss: (params, batch, dropout key) → scalar, jit-able.
        batches: (step, instance numbers int [B]) → batch.
        held_out: params → measures, with `kendall_tau` among them.
        instances: training instances; a batch is always full, the last one of an epoch starts the next.

    Raises:
        UserError: the loss is not finite.
    """
    import orbax.checkpoint as ocp
    from orbax.checkpoint import checkpoint_managers as policies

    batch_size = min(batch_size, instances)
    steps = max(1, math.ceil(instances * epochs / batch_size))
    every = max(1, math.ceil(steps / _EVALUATIONS))
    warmup = max(1, steps // 10)
    schedule = optax.join_schedules(
        [
            optax.linear_schedule(0.0, learning_rate, warmup),
            optax.linear_schedule(learning_rate, 0.0, steps - warmup),
        ],
        [warmup],
    )
    optimiser = optax.adam(schedule)

    @jax.jit
    def update(params: Params, state: Any, batch: Batch, key: jax.Array) -> tuple[Params, Any, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(params, batch, key)
        change, state = optimiser.update(gradient, state, params)
        return optax.apply_updates(params, change), state, value

    def rank(metrics: dict[str, float]) -> float:
        return metrics["rank"]

    keep = policies.AnyPreservationPolicy([policies.LatestN(1), policies.BestN(get_metric_fn=rank, n=1)])
    options = ocp.CheckpointManagerOptions(
        best_fn=rank, preservation_policy=keep, enable_async_checkpointing=False
    )
    kept = _Kept(stage, every)
    with ocp.CheckpointManager(kept.checkpoints, options=options) as checkpoints:

        def save(step: int, params: Params, state: Any, row: dict[str, float]) -> None:
            # before the checkpoint: a killed run may have a row too many, never one too few
            history.append(kept.row({"step": step, **row}))
            args = ocp.args.StandardSave({"params": params, "state": state})
            # Orbax writes a new checkpoint before it removes an old one
            check_room(stage.folder, sum(leaf.nbytes for leaf in jax.tree.leaves(args.item)))
            # of equally good checkpoints the earlier is better
            checkpoints.save(step, args=args, metrics={"rank": row[QUALITY] - 1e-9 * step})
            kept.seal(step)

        def restore(step: int) -> Any:
            return checkpoints.restore(step, args=ocp.args.StandardRestore(abstract))

        state = optimiser.init(params)
        abstract = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)),
            {"params": params, "state": state},
        )
        history: list[dict[str, float]] = []
        last = checkpoints.latest_step()
        if last is None:
            last = 0
            save(0, params, state, held_out(params))
        else:
            history = kept.history(last)
            restored = restore(last)
            params, state = restored["params"], restored["state"]

        key = jax.random.key(seed)
        losses: list[float] = []
        with tqdm(total=steps, initial=last, desc=what) as bar:
            for step in range(last, steps):
                batch = batches(step, _rows(step, instances, batch_size, seed))
                params, state, value = update(params, state, batch, jax.random.fold_in(key, step))
                losses.append(float(value))
                if not math.isfinite(losses[-1]):
                    raise UserError(
                        f"{what}: the loss is {losses[-1]} at step {step}; lower the learning rate"
                    )
                if (step + 1) % every == 0 or step + 1 == steps:
                    row = held_out(params)
                    save(step + 1, params, state, {"loss": float(np.mean(losses)), **row})
                    losses = []
                    bar.set_postfix(loss=f"{history[-1]['loss']:.4f}", tau=f"{row[QUALITY]:.3f}")
                bar.update()
        return Trained(restore(checkpoints.best_step())["params"], history)


class _Kept:
    """What a killed training leaves for the next process: checkpoints, their checksums, the history so far.

    A checkpoint or row that is damaged makes training begin again: the best one may be the one that is lost.
    A checkpoint that has no checksum yet is whole, for Orbax renames it into place when it is.
    """

    def __init__(self, stage: Stage, every: int) -> None:
        self.checkpoints = (stage.scratch / "checkpoints").absolute()
        stage.scratch.mkdir(exist_ok=True)
        if not self._sound(stage, every):
            log.warning("%s: a checkpoint is damaged; training again from the start", stage.name)
            shutil.rmtree(stage.scratch)
            stage.scratch.mkdir()
        self._history = Journal(stage.scratch / "history.jsonl", "step")
        self._seals = Journal(stage.scratch / "checkpoints.jsonl", "step")

    def _sound(self, stage: Stage, every: int) -> bool:
        seals = Journal(stage.scratch / "checkpoints.jsonl", "step").lines
        history = Journal(stage.scratch / "history.jsonl", "step").lines
        for folder in self.checkpoints.glob("[0-9]*"):
            if not folder.name.isdigit():  # half-written, which Orbax sweeps away
                continue
            step = int(folder.name)
            if not {*range(0, step, every), step} <= set(history):
                return False
            if step in seals and seals[step]["sha256"] != folder_sha256(folder):
                return False
        return True

    def row(self, row: dict[str, float]) -> dict[str, float]:
        """The row as it was first written."""
        if row["step"] not in self._history.lines:
            self._history.append([row])
        return self._history.lines[row["step"]]

    def seal(self, step: int) -> None:
        """Keep the checksum of a checkpoint that is whole."""
        if step not in self._seals.lines:
            self._seals.append([{"step": step, "sha256": folder_sha256(self.checkpoints / str(step))}])

    def history(self, last: int) -> list[dict[str, float]]:
        """The rows up to a step."""
        return [row for step, row in self._history.lines.items() if step <= last]  # type: ignore[operator]


class TokenTable:
    """Texts tokenised once; batches of them padded to one of four lengths, so that few shapes compile."""

    _LENGTHS = (32, 64, 128, 512)

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        self._longest, self._pad_id = min(encoder.max_length, self._LENGTHS[-1]), encoder.tokenizer.pad_id
        self._ids = encoder.tokenizer(list(texts), self._longest)

    def __getitem__(self, rows: np.ndarray) -> Tokens:
        """Tokens of the texts numbered `rows`, int32 [*rows.shape, T]."""
        ids = [self._ids[row] for row in rows.reshape(-1)]
        longest = max(map(len, ids))
        length = min(next(size for size in self._LENGTHS if size >= longest), self._longest)
        tokens = pad(ids, length, self._pad_id)
        return Tokens(*(np.reshape(leaf, (*rows.shape, -1)) for leaf in tokens))


def _rows(step: int, instances: int, batch_size: int, seed: int) -> np.ndarray:
    """The instances of one step: shuffled epochs laid end to end and cut into full batches."""
    places = range(step * batch_size, (step + 1) * batch_size)
    epochs = {place // instances for place in places}
    orders = {epoch: np.random.default_rng([seed, epoch]).permutation(instances) for epoch in epochs}
    return np.array([orders[place // instances][place % instances] for place in places])


def split_held_out(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(training, held-out) instance numbers: a tenth, at least one, is held out to pick the checkpoint."""
    if count < 2:
        raise UserError(f"training needs at least 2 scored instances, got {count}")
    order = np.random.default_rng([seed, 1]).permutation(count)
    out = max(1, count // 10)
    return np.sort(order[out:]), np.sort(order[:out])
