"""What a stopped training continues from: checkpoints, their checksums, and the history so far.

The first process of a job writes them, and all processes restore them.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ceil_jax.distributed import processes as hosts
from ceil_jax.store.hashing import folder_sha256
from ceil_jax.store.journal import Journal
from ceil_jax.store.locking import check_room
from ceil_jax.store.stage import Stage

log = logging.getLogger(__name__)


class TrainingState:
    """The last and the best checkpoint, in a stage's scratch folder; the earlier of two equally good ones counts.

    Training begins again where a checkpoint or a row is damaged, because it may be the best one that is lost. A
    checkpoint without a checksum is whole, because Orbax renames it into place when it is complete.

    Args:
        stage: its scratch folder holds the checkpoints.
        every: steps from one checkpoint to the next.
        like: a pytree of arrays with the shapes and dtypes of a checkpoint.
    """

    def __init__(self, stage: Stage, every: int, like: Any) -> None:
        self._like = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), leaf.dtype), like)
        self._folder = (stage.scratch / "checkpoints").absolute()
        self._leads, self._manager = hosts.leads(), None
        if self._leads:
            stage.scratch.mkdir(parents=True, exist_ok=True)
            if not self._sound(stage, every):
                log.warning("%s: a checkpoint is damaged; training again from the start", stage.name)
                shutil.rmtree(stage.scratch)
                stage.scratch.mkdir()
            self._folder.mkdir(exist_ok=True)
            self._manager = _manager(self._folder)
        # the other processes read the history after the first has checked it
        self._step = self._agreed_step()
        self._history = Journal(stage.scratch / "history.jsonl", "step")
        self._seals = Journal(stage.scratch / "checkpoints.jsonl", "step")
        self._rows = {step: row for step, row in self._history.lines.items() if step <= (self._step or 0)}  # type: ignore[operator]

    def _sound(self, stage: Stage, every: int) -> bool:
        seals = Journal(stage.scratch / "checkpoints.jsonl", "step").lines
        history = Journal(stage.scratch / "history.jsonl", "step").lines
        for folder in self._folder.glob("[0-9]*"):
            if not folder.name.isdigit():  # half-written; Orbax removes it
                continue
            step = int(folder.name)
            if not {*range(0, step, every), step} <= set(history):
                return False
            if step in seals and seals[step]["sha256"] != folder_sha256(folder):
                return False
        return True

    def _agreed_step(self) -> int | None:
        step = None if self._manager is None else self._manager.latest_step()
        found = int(hosts.agreed(np.asarray(-1 if step is None else step, np.int32)))
        return None if found < 0 else found

    def __enter__(self) -> TrainingState:
        return self

    def __exit__(self, *error: object) -> None:
        if self._manager is not None:
            self._manager.close()

    @property
    def step(self) -> int | None:
        """Step of the last checkpoint when this process began, the same in all processes; None without one."""
        return self._step

    @property
    def history(self) -> list[dict[str, float]]:
        """The rows of the history up to the last checkpoint."""
        return list(self._rows.values())

    def save(self, step: int, tree: Any, row: dict[str, float], quality: float) -> None:
        """Write a checkpoint and its row of the history.

        Args:
            step: the number of steps done.
            tree: parameters and optimiser state.
            row: loss and held-out measures.
            quality: what decides which checkpoint is the best.
        """
        row = {"step": step, **row}
        if self._manager is None:
            self._rows[step] = row
            return
        import orbax.checkpoint as ocp

        # before the checkpoint: a stopped run may have a row too many, never one too few
        if step not in self._history.lines:
            self._history.append([row])
        self._rows[step] = self._history.lines[step]  # as it was first written
        args = ocp.args.StandardSave(jax.tree.map(np.asarray, tree))
        # Orbax writes a new checkpoint before it removes an old one
        check_room(self._folder, sum(leaf.nbytes for leaf in jax.tree.leaves(args.item)))
        # of equally good checkpoints the earlier is better
        self._manager.save(step, args=args, metrics={"rank": quality - 1e-9 * step})
        if step not in self._seals.lines:
            self._seals.append([{"step": step, "sha256": folder_sha256(self._folder / str(step))}])

    def last(self) -> Any:
        """Return the tree of the last checkpoint, as numpy arrays."""
        return self._restored(lambda manager: manager.latest_step())

    def best(self) -> Any:
        """Return the tree of the best checkpoint, as numpy arrays."""
        return self._restored(lambda manager: manager.best_step())

    def _restored(self, which: Callable[[Any], int]) -> Any:
        tree = self._like
        if self._manager is not None:
            import orbax.checkpoint as ocp

            tree = self._manager.restore(which(self._manager), args=ocp.args.StandardRestore(self._like))
        return hosts.agreed(tree)


def _manager(folder: Any) -> Any:
    import orbax.checkpoint as ocp
    from orbax.checkpoint import checkpoint_managers as policies

    def rank(metrics: dict[str, float]) -> float:
        return metrics["rank"]

    options: dict[str, Any] = {
        "best_fn": rank,
        "preservation_policy": policies.AnyPreservationPolicy(
            [policies.LatestN(1), policies.BestN(get_metric_fn=rank, n=1)]
        ),
        "enable_async_checkpointing": False,
    }
    if jax.process_count() > 1:  # by default every process would write
        options["create"] = False
        options["multiprocessing_options"] = ocp.options.MultiprocessingOptions(
            primary_host=0, active_processes={0}, barrier_sync_key_prefix="first"
        )
    return ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(**options))
