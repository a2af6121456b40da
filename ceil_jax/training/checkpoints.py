"""The state that a stopped training continues from: Orbax's last checkpoint, with the history so
far."""

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
    """The last checkpoint of a training.

    Orbax writes a new checkpoint before it removes the old one, and a half-written one does not
    count. Where it cannot be read, training begins again.

    Args:
        folder: holds the checkpoint; made if need be.
        like: a pytree of arrays with the shapes and dtypes of a checkpoint.
    """

    def __init__(self, folder: Path, like: Any) -> None:
        self._like = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), leaf.dtype), like)
        self._folder = (folder / "checkpoints").absolute()
        self.history: list[dict[str, float]] = []
        """The rows of the history up to the last checkpoint."""
        self.last: Any = None
        """The tree of the last checkpoint when this process began, as numpy arrays; None without
        one."""
        self._manager = self._opened()

    def _opened(self) -> Any:
        """Orbax's manager of the checkpoint, which is read; of an empty folder where it cannot
        be."""
        import orbax.checkpoint as ocp

        manager = None
        try:
            with disk_errors(self._folder):
                self._folder.mkdir(parents=True, exist_ok=True)
                options = ocp.CheckpointManagerOptions(
                    max_to_keep=1, enable_async_checkpointing=False
                )
                manager = ocp.CheckpointManager(self._folder, options=options)
            if manager.latest_step() is not None:
                tree, history = ocp.args.StandardRestore(self._like), ocp.args.JsonRestore()
                found = manager.restore(
                    manager.latest_step(), args=ocp.args.Composite(tree=tree, history=history)
                )
                self.history, self.last = list(found["history"]), found["tree"]
            return manager
        except Exception as error:  # whatever Orbax meets in damaged files
            if isinstance(error, UserError) or not any(self._folder.iterdir()):
                raise
            log.warning(
                "%s cannot be read (%s); training again from the start", self._folder, error
            )
            if manager is not None:
                manager.close()
            shutil.rmtree(self._folder)
            return self._opened()

    def __enter__(self) -> TrainingState:
        return self

    def __exit__(self, *error: object) -> None:
        self._manager.close()

    def save(self, step: int, tree: Any, row: dict[str, float]) -> None:
        """Write a checkpoint, with the history up to it, to which the row is added."""
        import orbax.checkpoint as ocp

        self.history.append({"step": step, **row})
        arrays = jax.tree.map(np.asarray, tree)
        args = ocp.args.Composite(
            tree=ocp.args.StandardSave(arrays), history=ocp.args.JsonSave(self.history)
        )
        with disk_errors(self._folder):
            check_room(self._folder, sum(leaf.nbytes for leaf in jax.tree.leaves(arrays)))
            self._manager.save(step, args=args)
