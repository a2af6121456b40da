"""The state that a stopped training continues from: checkpoints, their seals, and the history so far.

```
scratch/checkpoints/8/      Orbax's folder of the checkpoint after step 8
scratch/checkpoints.jsonl   a seal for each checkpoint: stage, step, sha256 of the folder
scratch/history.jsonl       a row for each checkpoint: stage, step, rank, loss, held-out measures
```
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ceil_jax.store.hashing import folder_sha256
from ceil_jax.store.journal import Journal
from ceil_jax.store.locking import check_room
from ceil_jax.store.stage import Stage

log = logging.getLogger(__name__)


class TrainingState:
    """The latest and the best checkpoint, in a stage's scratch folder; the earlier of two equally good ones counts.

    A checkpoint is used only with a seal of its stage. The last one may lack it, because the process was killed in
    between: it is removed, and training continues from the one before it, which is kept until then. Where anything
    else is damaged, missing or another stage's, training begins again, because the best checkpoint may be lost.

    Args:
        stage: its scratch folder holds the checkpoints.
        every: steps from one checkpoint to the next.
        like: a pytree of arrays with the shapes and dtypes of a checkpoint.
    """

    def __init__(self, stage: Stage, every: int, like: Any) -> None:
        self._like = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), leaf.dtype), like)
        self._folder = (stage.scratch / "checkpoints").absolute()
        self._stage = stage.name
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._sound(stage, every):
            log.warning("%s: a checkpoint is damaged; training again from the start", stage.name)
            shutil.rmtree(stage.scratch)
            self._folder.mkdir(parents=True)
        self._manager = _manager(self._folder)
        self._step = self._manager.latest_step()
        self._history = self._journal(stage.scratch / "history.jsonl")
        self._seals = self._journal(stage.scratch / "checkpoints.jsonl")
        self._rows = {
            step: _row(line)
            for step, line in self._history.lines.items()
            if step <= (self._step or 0)  # type: ignore[operator]
        }

    def _journal(self, path: Path) -> Journal:
        return Journal(path, "step", lambda line: line.get("stage") == self._stage)

    def _sound(self, stage: Stage, every: int) -> bool:
        """Remove a last checkpoint without a seal; return whether the others are all there and whole."""
        seals = self._journal(stage.scratch / "checkpoints.jsonl").lines
        history = self._journal(stage.scratch / "history.jsonl").lines
        # names that are no number are half-written; Orbax removes them
        steps = sorted(int(folder.name) for folder in self._folder.glob("[0-9]*") if folder.name.isdigit())
        if not steps:
            return True
        last = steps[-1]
        if last not in seals:
            shutil.rmtree(self._folder / str(steps.pop()))
        if not {*range(0, last, every), last} <= history.keys():
            return False
        # the best may be the one that was removed, which will be made again
        best = max((step for step in history if step <= last), key=lambda step: history[step]["rank"])  # type: ignore[operator]
        if best not in {*steps, last} or not seals.keys() >= set(steps):
            return False
        return all(seals[step]["sha256"] == folder_sha256(self._folder / str(step)) for step in steps)

    def __enter__(self) -> TrainingState:
        return self

    def __exit__(self, *error: object) -> None:
        self._manager.close()

    @property
    def step(self) -> int | None:
        """Step of the last checkpoint when this process began; None without one."""
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
        # of equally good checkpoints the earlier is better
        rank = quality - 1e-9 * step
        line = {"stage": self._stage, "rank": rank, "step": step, **row}
        import orbax.checkpoint as ocp

        # before the checkpoint: a stopped run may have a row too many, never one too few
        if step not in self._history.lines:
            self._history.append([line])
        self._rows[step] = _row(self._history.lines[step])  # as it was first written
        args = ocp.args.StandardSave(jax.tree.map(np.asarray, tree))
        # Orbax writes a new checkpoint before it removes an old one
        check_room(self._folder.parent, sum(leaf.nbytes for leaf in jax.tree.leaves(args.item)))
        self._manager.save(step, args=args, metrics={"rank": rank})
        if step not in self._seals.lines:
            sha256 = folder_sha256(self._folder / str(step))
            self._seals.append([{"stage": self._stage, "step": step, "sha256": sha256}])

    def last(self) -> Any:
        """Return the tree of the last checkpoint, as numpy arrays."""
        return self._restored(lambda manager: manager.latest_step())

    def best(self) -> Any:
        """Return the tree of the best checkpoint, as numpy arrays."""
        return self._restored(lambda manager: manager.best_step())

    def _restored(self, which: Callable[[Any], int]) -> Any:
        import orbax.checkpoint as ocp

        return self._manager.restore(which(self._manager), args=ocp.args.StandardRestore(self._like))


def _row(line: Mapping[str, Any]) -> dict[str, float]:
    """A row of the history without what only checks need."""
    return {name: value for name, value in line.items() if name not in ("stage", "rank")}


def _manager(folder: Any) -> Any:
    import orbax.checkpoint as ocp
    from orbax.checkpoint import checkpoint_managers as policies

    def rank(metrics: dict[str, float]) -> float:
        return metrics["rank"]

    options: dict[str, Any] = {
        "best_fn": rank,
        "preservation_policy": policies.AnyPreservationPolicy(
            # two, because the last one has no seal at first
            [policies.LatestN(2), policies.BestN(get_metric_fn=rank, n=1)]
        ),
        "enable_async_checkpointing": False,
    }
    return ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(**options))
