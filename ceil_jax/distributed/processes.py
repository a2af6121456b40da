"""One job on several machines: how its processes find each other, and what they exchange.

Every process runs the same program over its own devices. A training step spans the devices of all processes
(`devices.global_mesh`), each process encodes and searches its share of a bank, and only the first process writes
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
"""Seconds without a heartbeat after which a process counts as dead and the job is stopped."""

_A_DAY = 86_400


@dataclass(frozen=True)
class Hosts:
    """The processes of this job. In a SLURM job of several tasks (srun) no flag is needed."""

    coordinator: str | None = None
    """host:port of the first process, the same for all processes."""
    processes: int | None = None
    """Number of processes."""
    process: int | None = None
    """Number of this process, counted from 0."""


ALONE = Hosts()
"""One process, no flags."""


class HostLost(UserError):
    """Another process of this job died.

    End this process with `os._exit`: an ordinary exit would wait for the other process and then abort.
    """


def start(hosts: Hosts = ALONE, environment: Mapping[str, str] = os.environ) -> None:
    """Join the other processes, if there are any. Call it before JAX is used for anything else.

    Args:
        hosts: the flags; none by default.
        environment: environment variables, in which SLURM describes its job.

    Raises:
        UserError: some of the flags are given but not all, a number is out of range, or the processes did not
            find each other.
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

    # CPUs need a transport for collectives; GPUs have NCCL
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            *given,
            initialization_timeout=120,
            heartbeat_timeout_seconds=SILENCE,
            # the first process may read the LM's answers long after the others are done; if it dies, they notice
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
    """The first process's arrays, in all processes; each must pass arrays of the same shapes."""
    import jax

    if jax.process_count() == 1:
        return tree
    from jax.experimental.multihost_utils import broadcast_one_to_all

    return broadcast_one_to_all(tree)


@contextmanager
def together(what: str) -> Iterator[None]:
    """A context for work that needs all processes.

    Args:
        what: the work, which begins the message of the error.

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
    """This process's share of `count` rows: a contiguous block; all blocks but the last are of one size."""
    import jax

    each = -(-count // jax.process_count())
    return slice(min(jax.process_index() * each, count), min((jax.process_index() + 1) * each, count))


def mapped(function: Callable[[slice], np.ndarray], count: int) -> np.ndarray:
    """Apply a function to every process's share of the rows.

    Args:
        function: from a slice of the rows to its results, [rows of the slice, …].
        count: number of rows.

    Returns:
        [count, …], the results of all processes, in all processes.
    """
    import jax

    if jax.process_count() == 1:
        return function(slice(0, count))
    from jax.experimental.multihost_utils import process_allgather

    own = function(share(count))
    each = -(-count // jax.process_count())
    # the last shares may be shorter, and the gathered arrays must have one shape
    padded = np.concatenate([own, np.zeros((each - len(own), *own.shape[1:]), own.dtype)])
    return np.asarray(process_allgather(padded, tiled=True))[:count]
