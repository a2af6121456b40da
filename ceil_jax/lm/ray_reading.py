"""Reading prompts on a Ray cluster: each actor of a pool has an LM of its own and takes the next chunk when it is
free."""

from __future__ import annotations

import json
import logging
import platform
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.readings import Reader, Reading, Request, read_chunk
from ceil_jax.store.cost import Cost


class _Actor:
    """One LM of the pool; it lives as long as the pool does."""

    def __init__(self, load: Callable[[], LanguageModel], name: str) -> None:
        self.lm = load()
        if self.lm.name != name:
            raise UserError(
                f"the LM is {self.lm.name} on {platform.node()} and {name} where the run was started; "
                "give --dtype, and the same weights on all machines"
            )

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        lines = []
        for number, text in zip(batch["number"].tolist(), batch["requests"].tolist(), strict=True):
            requests = [
                Request(one[0], tuple(one[1]), one[2], one[3], tuple(one[4]), *one[5:])
                for one in json.loads(text)
            ]
            found = read_chunk(self.lm, requests)
            # as text, because Arrow would pad lists of unequal length to one shape
            lines.append(
                json.dumps([number, [[one.value, one.cost.seconds, one.cost.tokens] for one in found]])
            )
        return {"line": lines}


def actor_pool(load: Callable[[], LanguageModel], name: str, actors: int) -> Reader:
    """Return a reader for `ReadLM` that reads `actors` chunks at a time with Ray Data.

    Only this process keeps readings. An actor or a machine that dies is replaced and its chunk is read again. The
    cluster is the one that `RAY_ADDRESS` names, or one that is started on this machine.

    Args:
        load: loads the LM; it is sent to the actors.
        name: the name that the loaded LM must have; it identifies weights and dtype.
        actors: actors, each of which takes a GPU, or a CPU core where the cluster has no GPU.

    Raises:
        UserError: ray is not installed; fewer than one actor, or more than the cluster has devices.
    """
    if actors < 1:
        raise UserError(f"--actors {actors}: expected at least 1")
    try:
        import ray
        import ray.data
    except ModuleNotFoundError:
        raise UserError("ray is not installed; pip install 'ceil-jax[ray]'") from None

    def read(chunks: Sequence[Sequence[Request]]) -> Iterator[tuple[int, list[Reading]]]:
        started = not ray.is_initialized()
        if started:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
        try:
            resources = ray.cluster_resources()
            what = "GPU" if resources.get("GPU") else "CPU"
            if actors > resources[what]:
                raise UserError(
                    f"--actors {actors}: the cluster has {resources[what]:.0f} {what}s; an actor takes one"
                )
            ray.data.DataContext.get_current().enable_progress_bars = False
            items = [{"number": i, "requests": json.dumps(list(chunk))} for i, chunk in enumerate(chunks)]
            # one block a chunk: an actor that dies loses no more than its current chunk; Ray Data restarts lost
            # actors and their chunks
            lines = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
                _Actor,
                fn_constructor_args=(load, name),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(size=min(actors, len(items))),
                num_gpus=1 if what == "GPU" else None,
                num_cpus=1 if what == "CPU" else None,
            )
            for row in lines.iter_rows():
                number, found = json.loads(row["line"])
                yield number, [Reading(value, Cost(seconds, tokens)) for value, seconds, tokens in found]
        finally:
            if started:
                ray.shutdown()

    return read
