"""The state that a stopped training continues from: Orbax's checkpoints, each with the history so far."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.store.locking import check_room, disk_errors

log = logging.getLogger(__name__)


class TrainingState:
    """The latest and the best checkpoint of a training; the earlier of two equally good ones counts.

    Orbax writes a new checkpoint before it removes an old one, and a half-written one does not count. Where one
    cannot be read, training begins again.

    Args:
        folder: holds the checkpoints; made if need be.
        like: a pytree of arrays with the shapes and dtypes of a checkpoint.
    """

    def __init__(self, folder: Path, like: Any) -> None:
        self._like = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), leaf.dtype), like)
        self._folder = (folder / "checkpoints").absolute()
        self.history: list[dict[str, float]] = []
        """The rows of the history up to the last checkpoint."""
        self.last: Any = None
        """The tree of the last checkpoint when this process began, as numpy arrays; None without one."""
        self._manager = self._opened()

    def _opened(self) -> Any:
        """Orbax's manager of the checkpoints, which are read; of an empty folder where they cannot be."""
        manager = None
        try:
            with disk_errors(self._folder):
                self._folder.mkdir(parents=True, exist_ok=True)
                manager = _manager(self._folder)
            if manager.latest_step() is not None:
                self._restored(manager, manager.best_step())
                found = self._restored(manager, manager.latest_step())
                self.history, self.last = list(found["history"]), found["tree"]
            return manager
        except Exception as error:  # whatever Orbax meets in damaged files
            if isinstance(error, UserError) or not any(self._folder.iterdir()):
                raise
            log.warning("%s cannot be read (%s); training again from the start", self._folder, error)
            if manager is not None:
                manager.close()
            shutil.rmtree(self._folder)
            return self._opened()

    def _restored(self, manager: Any, step: int) -> Any:
        import orbax.checkpoint as ocp

        tree, history = ocp.args.StandardRestore(self._like), ocp.args.JsonRestore()
        return manager.restore(step, args=ocp.args.Composite(tree=tree, history=history))

    def __enter__(self) -> TrainingState:
        return self

    def __exit__(self, *error: object) -> None:
        self._manager.close()

    def save(self, step: int, tree: Any, row: dict[str, float], quality: float) -> None:
        """Write a checkpoint, with the history up to it, to which the row is added. The larger its quality, the
        better it is."""
        import orbax.checkpoint as ocp

        self.history.append({"step": step, **row})
        arrays = jax.tree.map(np.asarray, tree)
        args = ocp.args.Composite(tree=ocp.args.StandardSave(arrays), history=ocp.args.JsonSave(self.history))
        with disk_errors(self._folder):
            check_room(self._folder, sum(leaf.nbytes for leaf in jax.tree.leaves(arrays)))
            # of equally good checkpoints the earlier is better
            self._manager.save(step, args=args, metrics={"rank": quality - 1e-9 * step})

    def best(self) -> Any:
        """Return the tree of the best checkpoint, as numpy arrays."""
        return self._restored(self._manager, self._manager.best_step())["tree"]


def _manager(folder: Path) -> Any:
    import orbax.checkpoint as ocp
    from orbax.checkpoint import checkpoint_managers as policies

    def rank(metrics: dict[str, float]) -> float:
        return metrics["rank"]

    latest, best = policies.LatestN(1), policies.BestN(get_metric_fn=rank, n=1)
    options = ocp.CheckpointManagerOptions(
        best_fn=rank,
        preservation_policy=policies.AnyPreservationPolicy([latest, best]),
        enable_async_checkpointing=False,
    )
    return ocp.CheckpointManager(folder, options=options)
