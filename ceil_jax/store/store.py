"""A folder of stages."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ceil_jax.store.hashing import canonical, digest
from ceil_jax.store.locking import held
from ceil_jax.store.shards import Shard
from ceil_jax.store.stage import KEY, Stage

log = logging.getLogger(__name__)


class Store:
    """A folder of stages.

    Args:
        root: the folder; made when the first stage is.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def finished(self, kind: str, key: Mapping[str, Any]) -> Stage | None:
        """Return the stage if it is there and done. Nothing is made, and nothing waited for.

        Args:
            kind: what the stage makes, as in `scores`; the beginning of its folder's name.
            key: everything that the stage depends on.
        """
        stage = Stage(self.root / f"{kind}-{digest(key)}")
        return stage if stage.summary is not None else None

    @contextmanager
    def stage(self, kind: str, key: Mapping[str, Any], shard: Shard | None = None) -> Iterator[Stage]:
        """Hold a stage until the block ends. Its folder is made if need be; no other process works in it.

        Args:
            kind: what the stage makes, as in `scores`; the beginning of its folder's name.
            key: everything that the stage depends on; JSON values, dataclasses, paths and arrays.
            shard: hold only this part of the stage, so that other shards may work beside it.

        Raises:
            UserError: the disk is full, or the folder cannot be written.
        """
        folder = self.root / f"{kind}-{digest(key)}"
        with held(folder, f".lock-{shard.number}-of-{shard.of}" if shard else ".lock"):
            stage = Stage(folder)
            content = (canonical(key) + "\n").encode()
            file = folder / KEY
            if not file.exists() or file.read_bytes() != content:
                if file.exists():
                    log.warning("%s is damaged; taking only what is certain to be of this stage", file)
                    stage.distrust()
                # shards begin together, each with a lock of its own
                stage.write(KEY, content, part=f".part-{shard.number}-of-{shard.of}" if shard else ".part")
            yield stage
