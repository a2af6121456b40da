"""One job on several machines: how its processes find each other, and what they tell each other.

Every process runs the same program over its own devices. A training step spans the devices of all
(`parallel.global_mesh`), each host encodes and searches its share of a bank, and only the first process writes
to the run's folder, which all of them see.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ceil_jax.errors import UserError

SILENCE = 20
"""Seconds without a sign of life after which a process counts as dead and the job is stopped."""

_A_DAY = 86_400


@dataclass(frozen=True)
class Hosts:
    """The processes of this job; in a SLURM job of several tasks (srun) no flag is needed."""

    coordinator: str | None = None
    """host:port of the first process, the same for all."""
    processes: int | None = None
    """How many there are."""
    process: int | None = None
    """This one's number, from 0."""


ALONE = Hosts()
"""No flags."""


class HostLost(UserError):
    """Another process of this job died. End this one with `os._exit`: an ordinary exit would wait for the other
    and then abort."""


def start(hosts: Hosts = ALONE, environment: Mapping[str, str] = os.environ) -> None:
    """Join the other processes, if there are any; before JAX is used for anything else.

    Raises:
        UserError: some of the flags but not all, a number out of range, or the others did not come.
    """
    given = (hosts.coordinator, hosts.processes, hosts.process)
    slurm = int(environment.get("SLURM_NTASKS", "1")) > 1 and "SLURM_PROCID" in environment
    if given == (None, None, None) and not slurm:
        return
    if given != (None, None, None):
        if None in given:
            raise UserError("--coordinator HOST:PORT, --processes N and --process I belong together")
        assert hosts.processes is not None and hosts.process is not None
        if not 0 <= hosts.process < hosts.processes:
            raise UserError(
                f"--process {hosts.process}: expected 0 to {hosts.processes - 1}, below --processes"
            )
    import jax

    # CPUs need a way to talk; GPUs have NCCL
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            *given,
            initialization_timeout=120,
            heartbeat_timeout_seconds=SILENCE,
            # the first may have answers to read long after the others are done; if it dies, they hear of it
            shutdown_timeout_seconds=_A_DAY,
        )
    except (RuntimeError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise UserError(
            f"the processes of this job did not find each other ({first}); are all running?"
        ) from error


def leads() -> bool:
    """Whether this process is the one that writes."""
    import jax

    return jax.process_index() == 0


def agreed(tree: Any) -> Any:
    """The first process's arrays, in all of them; each must pass arrays of those shapes."""
    import jax

    if jax.process_count() == 1:
        return tree
    from jax.experimental.multihost_utils import broadcast_one_to_all

    return broadcast_one_to_all(tree)


@contextmanager
def together(what: str) -> Iterator[None]:
    """Work that needs all processes: when another one dies, say so.

    Raises:
        HostLost: a collective operation failed in a job of several processes.
    """
    import jax

    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if jax.process_count() == 1:
            raise
        raise HostLost(
            f"{what}: lost another process of this job ({str(error).splitlines()[0][:160]}); start the job again: "
            "it goes on from its last checkpoint"
        ) from error


def share(count: int) -> slice:
    """This process's of `count` rows: neighbours, as many as the others' but for the last few."""
    import jax

    each = -(-count // jax.process_count())
    return slice(min(jax.process_index() * each, count), min((jax.process_index() + 1) * each, count))


def mapped(function: Callable[[slice], np.ndarray], count: int) -> np.ndarray:
    """`function(share)` of every process, put together in all of them: [count, …]."""
    import jax

    if jax.process_count() == 1:
        return function(slice(0, count))
    from jax.experimental.multihost_utils import process_allgather

    own = function(share(count))
    each = -(-count // jax.process_count())
    # the last shares may be shorter, and what is gathered must be of one shape
    padded = np.concatenate([own, np.zeros((each - len(own), *own.shape[1:]), own.dtype)])
    return np.asarray(process_allgather(padded, tiled=True))[:count]


def merge_top_k(scores: np.ndarray, indices: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The best k of several hosts' lists [Q, H·k], in the order of `index.top_k`: ties by the lower index."""
    order = np.lexsort((np.where(indices < 0, np.iinfo(np.int32).max, indices), -scores))[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(indices, order, 1)


def top_k(
    queries: np.ndarray, items: np.ndarray, k: int, exclude: np.ndarray | None = None, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """`index.top_k` over a bank of which every process reads its share only; k candidates a query travel.

    `items` is the whole bank, memory-mapped: rows of other processes' shares are not read.
    """
    import jax

    from ceil_jax.retrieval import index

    if jax.process_count() == 1:
        return index.top_k(queries, items, k, exclude, **options)
    from jax.experimental.multihost_utils import process_allgather

    own = share(len(items))
    if exclude is not None:
        exclude = np.where((exclude >= own.start) & (exclude < own.stop), exclude - own.start, -1)
    scores, indices = index.top_k(queries, items[own], k, exclude, **options)
    indices = np.where(indices >= 0, indices + own.start, -1).astype(np.int32)
    scores, indices = (np.concatenate(part, axis=1) for part in process_allgather((scores, indices)))
    return merge_top_k(scores, indices, k)
