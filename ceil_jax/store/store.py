"""A folder of stages."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ceil_jax.store.followed import FollowedStage
from ceil_jax.store.hashing import canonical, digest
from ceil_jax.store.locking import held
from ceil_jax.store.shards import Shard
from ceil_jax.store.stage import Stage

log = logging.getLogger(__name__)


class Store:
    """A folder of stages; in a job of several processes one of them `leads` and writes, the others read."""

    def __init__(self, root: Path | str, *, leads: bool = True) -> None:
        self.root, self._leads = Path(root), leads

    def finished(self, kind: str, key: Mapping[str, Any]) -> Stage | None:
        """The stage if it is there and done; nothing is made, and nothing waited for."""
        stage = Stage(self.root / f"{kind}-{digest(key)}")
        return stage if stage.summary is not None else None

    @contextmanager
    def stage(self, kind: str, key: Mapping[str, Any], shard: Shard | None = None) -> Iterator[Stage]:
        """The stage's folder, made if need be and held by this process alone until the block ends.

        A shard holds its own part of it only.

        Raises:
            UserError: the disk is full or the folder cannot be written.
        """
        folder = self.root / f"{kind}-{digest(key)}"
        if not self._leads:
            yield FollowedStage(folder)
            return
        with held(folder, f".lock-{shard.number}-of-{shard.of}" if shard else ".lock"):
            stage = Stage(folder)
            content = (canonical(key) + "\n").encode()
            file = folder / "key.json"
            if not file.exists() or file.read_bytes() != content:
                if file.exists():
                    log.warning("%s is damaged; writing it again", file)
                stage.write("key.json", content)
            yield stage
