"""Scoring and answering of prompts by an LM on the workers of a Ray cluster.

Each actor of a pool has its own copy of the LM, and takes the next chunk when it is free.
"""

from __future__ import annotations

import logging
import math
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.cached import ReadChunks, Reader
from ceil_jax.lm.request import LMRequest, Reading, read_chunk


class Actor:
    """An actor with its own copy of the LM, which lives as long as the pool."""

    def __init__(self, load: Callable[[], LanguageModel], name: str) -> None:
        self.lm = load()
        if self.lm.name != name:
            raise UserError(
                f"the LM is {self.lm.name} on {platform.node()} and {name} where the run was "
                "started; give --dtype, and the same weights on all machines"
            )

    def read(self, number: int, requests: Sequence[LMRequest]) -> tuple[int, list[Reading]]:
        return number, read_chunk(self.lm, requests)


def actor_pool(load: Callable[[], LanguageModel], name: str, actors: int) -> Reader:
    """Return a reader for `CachedLM` that reads chunks with `actors` Ray actors at the same time.

    Only this process stores readings. If an actor or a machine dies, it is replaced and its chunk
    is read again. The cluster is the one at `RAY_ADDRESS`, or one that is started on this machine.
    Each actor uses a GPU, or a CPU core if there are none, and calls `load`, which must return the
    LM with that name.

    Raises:
        UserError: ray is not installed; fewer than one actor, or more than the cluster has devices.
    """
    if actors < 1:
        raise UserError(f"--actors {actors}: expected at least 1")
    try:
        import ray
        from ray.util import ActorPool
    except ModuleNotFoundError:
        raise UserError("ray is not installed; pip install 'ceil-jax[ray]'") from None

    @contextmanager
    def opened(requests: int) -> Iterator[ReadChunks]:
        started = not ray.is_initialized()
        if started:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
        try:
            resources = ray.cluster_resources()
            what = "GPU" if resources.get("GPU") else "CPU"
            if actors > resources[what]:
                raise UserError(
                    f"--actors {actors}: the cluster has {resources[what]:.0f} {what}s; an actor "
                    "takes one"
                )
            kind: Any = ray.remote(Actor)
            kind = kind.options(**{f"num_{what.lower()}s": 1}, max_restarts=-1, max_task_retries=-1)
            # no more actors than there are chunks to read
            count = math.ceil(requests / min(LanguageModel.at_once.values()))
            pool: Any = ActorPool([kind.remote(load, name) for _ in range(min(actors, count))])
            yield lambda chunks: pool.map_unordered(
                lambda actor, chunk: actor.read.remote(*chunk), enumerate(chunks)
            )
        finally:
            if started:
                ray.shutdown()

    return opened
