"""The checkpoint that a stopped training continues from, in Orbax's format."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.store.locking import check_room, disk_errors

log = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """A training after some of its steps."""

    step: int
    """Steps taken."""
    weights: Mapping[str, Any]
    """Weights and the optimiser's state, by name."""
    history: list[dict[str, float]]
    """One row an evaluation so far (`loop.Trained.history`)."""
    losses: list[float]
    """The losses of the steps since the last evaluation."""


class Checkpoints:
    """The last checkpoint of a training.

    Orbax writes a new checkpoint before it removes the old one, and a half-written one does not
    count. Where it cannot be read, training begins again.

    Args:
        folder: holds the checkpoint; made if need be.
        like: weights with the shapes and dtypes of a checkpoint's.
    """

    last: Checkpoint | None = None
    """The checkpoint in the folder when this process began, as numpy arrays; None without one."""

    def __init__(self, folder: Path, like: Mapping[str, Any]) -> None:
        self._like = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), leaf.dtype), dict(like))
        self._folder = (folder / "checkpoints").absolute()
        self._manager = self._opened()

    def _opened(self) -> Any:
        """Orbax's manager of the folder, whose checkpoint is read; of an empty folder where it
        cannot be."""
        import orbax.checkpoint as ocp

        manager = None
        try:
            with disk_errors(self._folder):
                self._folder.mkdir(parents=True, exist_ok=True)
                options = ocp.CheckpointManagerOptions(
                    max_to_keep=1, enable_async_checkpointing=False
                )
                manager = ocp.CheckpointManager(self._folder, options=options)
            step = manager.latest_step()
            if step is not None:
                stored = manager.restore(
                    step,
                    args=ocp.args.Composite(
                        weights=ocp.args.StandardRestore(self._like),
                        progress=ocp.args.JsonRestore(),
                    ),
                )
                progress = stored["progress"]
                self.last = Checkpoint(
                    step, stored["weights"], list(progress["history"]), list(progress["losses"])
                )
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

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *error: object) -> None:
        self._manager.close()

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint in place of the last one.

        Raises:
            UserError: the disk has too little room for it.
        """
        import orbax.checkpoint as ocp

        arrays = jax.tree.map(np.asarray, dict(checkpoint.weights))
        progress = {"history": checkpoint.history, "losses": checkpoint.losses}
        with disk_errors(self._folder):
            check_room(self._folder, sum(leaf.nbytes for leaf in jax.tree.leaves(arrays)))
            self._manager.save(
                checkpoint.step,
                args=ocp.args.Composite(
                    weights=ocp.args.StandardSave(arrays), progress=ocp.args.JsonSave(progress)
                ),
            )
