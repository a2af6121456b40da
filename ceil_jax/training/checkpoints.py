"""The state that a stopped training continues from: Orbax's checkpoints, each with the history so far."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.store.folder import read_json, write_json
from ceil_jax.store.hashing import folder_sha256
from ceil_jax.store.locking import check_room, disk_errors

log = logging.getLogger(__name__)


class TrainingState:
    """The latest and the best checkpoint of a training; the earlier of two equally good ones counts.

    Orbax writes a new checkpoint before it removes an old one, and a half-written one does not count. It does not
    notice every damaged file, so the sha256 of each checkpoint is kept beside them; where one cannot be read, or has
    changed, training begins again.

    Args:
        folder: holds the checkpoints; made if need be.
        like: a pytree of arrays with the shapes and dtypes of a checkpoint.
    """

    def __init__(self, folder: Path, like: Any) -> None:
        self._like = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), leaf.dtype), like)
        self._folder = (folder / "checkpoints").absolute()
        self._sums_file = self._folder.with_suffix(".json")
        self._sums: dict[str, str] = {}
        self._manager, self._rows, self._last = self._opened()

    def _opened(self) -> tuple[Any, list[dict[str, float]], Any]:
        """Orbax's manager, the history so far, and the last tree; None where there is no checkpoint."""
        manager: Any = None
        try:
            with disk_errors(self._folder):
                self._folder.mkdir(parents=True, exist_ok=True)
                manager = _manager(self._folder)
            if manager.latest_step() is None:
                return manager, [], None
            self._sums = read_json(self._sums_file) if self._sums_file.exists() else {}
            for step in {manager.latest_step(), manager.best_step()}:
                now = folder_sha256(self._folder / str(step))
                # a process that was killed in between has not kept the sum of its last one
                if self._sums.get(str(step), now) != now:
                    raise ValueError(f"checkpoint {step} has changed")
            found = _restore(manager, manager.latest_step(), self._like)
            _restore(manager, manager.best_step(), self._like)
            return manager, list(found["history"]), found["tree"]
        except Exception as error:  # whatever Orbax meets in damaged files
            if isinstance(error, UserError) or not any(self._folder.iterdir()):
                raise
            log.warning("%s cannot be read (%s); training again from the start", self._folder, error)
            if manager is not None:
                manager.close()
            shutil.rmtree(self._folder)
            self._sums_file.unlink(missing_ok=True)
            return self._opened()

    def __enter__(self) -> TrainingState:
        return self

    def __exit__(self, *error: object) -> None:
        self._manager.close()

    @property
    def step(self) -> int | None:
        """Step of the last checkpoint; None without one."""
        return None if not self._rows else int(self._rows[-1]["step"])

    @property
    def history(self) -> list[dict[str, float]]:
        """The rows of the history up to the last checkpoint."""
        return self._rows

    def save(self, step: int, tree: Any, row: dict[str, float], quality: float) -> None:
        """Write a checkpoint with the history up to it.

        Args:
            step: the number of steps done.
            tree: parameters and optimiser state.
            row: loss and held-out measures.
            quality: what decides which checkpoint is the best.
        """
        import orbax.checkpoint as ocp

        self._rows.append({"step": step, **row})
        arrays = jax.tree.map(np.asarray, tree)
        args = ocp.args.Composite(tree=ocp.args.StandardSave(arrays), history=ocp.args.JsonSave(self._rows))
        with disk_errors(self._folder):
            check_room(self._folder, sum(leaf.nbytes for leaf in jax.tree.leaves(arrays)))
            # of equally good checkpoints the earlier is better
            self._manager.save(step, args=args, metrics={"rank": quality - 1e-9 * step})
            kept = {str(one) for one in self._manager.all_steps()}
            self._sums[str(step)] = folder_sha256(self._folder / str(step))
            write_json(self._sums_file, {name: value for name, value in self._sums.items() if name in kept})

    def last(self) -> Any:
        """Return the tree of the last checkpoint when this process began, as numpy arrays."""
        return self._last

    def best(self) -> Any:
        """Return the tree of the best checkpoint, as numpy arrays."""
        return _restore(self._manager, self._manager.best_step(), self._like)["tree"]


def _restore(manager: Any, step: int, like: Any) -> Any:
    import orbax.checkpoint as ocp

    args = ocp.args.Composite(tree=ocp.args.StandardRestore(like), history=ocp.args.JsonRestore())
    return manager.restore(step, args=args)


def _manager(folder: Path) -> Any:
    import orbax.checkpoint as ocp
    from orbax.checkpoint import checkpoint_managers as policies

    rank: Callable[[dict[str, float]], float] = lambda metrics: metrics["rank"]  # noqa: E731
    options = ocp.CheckpointManagerOptions(
        best_fn=rank,
        preservation_policy=policies.AnyPreservationPolicy(
            [policies.LatestN(1), policies.BestN(get_metric_fn=rank, n=1)]
        ),
        enable_async_checkpointing=False,
    )
    return ocp.CheckpointManager(folder, options=options)
