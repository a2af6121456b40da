"""What a killed training goes on from: written once, by the first process; restored by all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from ceil_jax import hosts


class TrainingState:
    """Checkpoints in a folder: the last one, and the best by a quality, the earlier of equals.

    Args:
        like: a pytree of arrays with the shapes and dtypes of what is kept.
    """

    def __init__(self, folder: Path, like: Any) -> None:
        self._like = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), leaf.dtype), like)
        self._checkpoints: Any = None
        if not hosts.leads():
            return
        import orbax.checkpoint as ocp
        from orbax.checkpoint import checkpoint_managers as policies

        def rank(metrics: dict[str, float]) -> float:
            return metrics["rank"]

        keep = policies.AnyPreservationPolicy([policies.LatestN(1), policies.BestN(get_metric_fn=rank, n=1)])
        alone = ocp.options.MultiprocessingOptions(
            primary_host=0, active_processes={0}, barrier_sync_key_prefix="lead"
        )
        options = ocp.CheckpointManagerOptions(
            best_fn=rank,
            preservation_policy=keep,
            enable_async_checkpointing=False,
            # by itself orbax would have every process write
            **({} if jax.process_count() == 1 else {"multiprocessing_options": alone, "create": False}),
        )
        folder.mkdir(parents=True, exist_ok=True)
        self._checkpoints = ocp.CheckpointManager(folder.absolute(), options=options)

    def __enter__(self) -> TrainingState:
        return self

    def __exit__(self, *error: object) -> None:
        if self._checkpoints is not None:
            self._checkpoints.close()

    def save(self, step: int, tree: Any, quality: float) -> None:
        """Keep the tree of this step, which may be the best."""
        if self._checkpoints is None:
            return
        import orbax.checkpoint as ocp

        args = ocp.args.StandardSave(jax.tree.map(np.asarray, tree))
        # of equally good checkpoints the earlier is better
        self._checkpoints.save(step, args=args, metrics={"rank": quality - 1e-9 * step})

    def last_step(self) -> int | None:
        """Of the last checkpoint."""
        step = None if self._checkpoints is None else self._checkpoints.latest_step()
        found = int(hosts.agreed(np.asarray(-1 if step is None else step, np.int32)))
        return None if found < 0 else found

    def last(self) -> Any:
        """The last tree, numpy."""
        return self._restored("latest_step")

    def best(self) -> Any:
        """The best tree, numpy."""
        return self._restored("best_step")

    def _restored(self, which: str) -> Any:
        tree = self._like
        if self._checkpoints is not None:
            import orbax.checkpoint as ocp

            step = getattr(self._checkpoints, which)()
            tree = self._checkpoints.restore(step, args=ocp.args.StandardRestore(self._like))
        return hosts.agreed(tree)
