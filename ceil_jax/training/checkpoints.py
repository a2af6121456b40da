"""The checkpoint from which a stopped training continues, in Orbax's format."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.store.hashing import digest
from ceil_jax.store.locking import check_room, disk_errors

log = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """The state of a training after some steps."""

    step: int
    """Number of steps taken."""
    weights: Mapping[str, Any]
    """Weights and the optimiser's state, by name."""
    history: list[dict[str, float]]
    """The evaluations so far (`loop.Trained.history`)."""
    losses: list[float]
    """The losses of the steps since the last evaluation."""


class Checkpoints:
    """The last checkpoint of a training.

    Orbax writes a new checkpoint before it removes the old one, and ignores a half-written one. If
    the checkpoint cannot be read, or is not what was written, training begins again.

    Args:
        folder: the folder of the checkpoint; created if needed.
        like: weights with the shapes and dtypes of those in a checkpoint.
    """

    last: Checkpoint | None = None
    """The checkpoint that was in the folder at the beginning, as numpy arrays; None if there was
    none."""

    def __init__(self, folder: Path, like: Mapping[str, Any]) -> None:
        self._like = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), leaf.dtype), dict(like))
        self._folder = (folder / "checkpoints").absolute()
        self._manager = self._opened()

    def _opened(self) -> Any:
        """Orbax's manager of the folder.

        Its checkpoint is read; the folder is emptied if that fails.
        """
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
                last = Checkpoint(
                    step, stored["weights"], list(progress["history"]), list(progress["losses"])
                )
                if progress["checksum"] != _checksum(last):
                    raise ValueError("its checksum is wrong")
                self.last = last
            return manager
        except Exception as error:  # Orbax raises all kinds of errors for damaged files
            if isinstance(error, UserError) or not any(self._folder.iterdir()):
                raise
            reason = " ".join(str(error).split())
            log.warning(
                "%s cannot be read (%.160s); training again from the start", self._folder, reason
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
            UserError: the disk has too little free space.
        """
        import orbax.checkpoint as ocp

        arrays = jax.tree.map(np.asarray, dict(checkpoint.weights))
        progress = {
            "history": checkpoint.history,
            "losses": checkpoint.losses,
            "checksum": _checksum(checkpoint),
        }
        with disk_errors(self._folder):
            check_room(self._folder, sum(leaf.nbytes for leaf in jax.tree.leaves(arrays)))
            self._manager.save(
                checkpoint.step,
                args=ocp.args.Composite(
                    weights=ocp.args.StandardSave(arrays), progress=ocp.args.JsonSave(progress)
                ),
            )


def _checksum(checkpoint: Checkpoint) -> str:
    """The digest of a checkpoint, which Orbax's files do not have."""
    leaves = map(np.asarray, jax.tree.leaves(dict(checkpoint.weights)))
    return digest([checkpoint.step, checkpoint.history, checkpoint.losses, *leaves])
