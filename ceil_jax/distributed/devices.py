"""Applying a function to many rows on all devices.

The rows are split over a 1-D mesh, everything else is replicated.

This is what `jax.pmap` did over the GPUs of a machine, with JAX's current interface. `map_batches`
is for functions that treat rows independently; `over_devices` is for the first part of a training
step, before a batch's loss combines the rows.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

AXIS = "batch"


def device_mesh() -> Mesh:
    """Return the 1-D mesh of all devices."""
    devices = jax.devices()
    return jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)


def split(mesh: Mesh) -> NamedSharding:
    """Return the sharding in which each device holds its share of the leading axis."""
    return NamedSharding(mesh, PartitionSpec(AXIS))


def whole(mesh: Mesh) -> NamedSharding:
    """Return the sharding in which every device holds the whole array."""
    return NamedSharding(mesh, PartitionSpec())


def filled_up(rows: int, mesh: Mesh) -> int:
    """Return the number of rows, `rows`, rounded up to a multiple of the number of devices."""
    return math.ceil(rows / mesh.size) * mesh.size


def over_devices(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Split the rows of a function over all devices, for use inside a jitted step.

    Each device computes its share of the rows, then all devices receive all results. What follows
    (in-batch negatives, a mean over the batch) sees the whole batch, so the loss does not depend on
    the number of devices. If that number does not divide B, the batch is padded with copies of its
    first row, whose results are dropped and have no gradient. The padding comes last, and JAX's
    random bits depend only on a row's position, so dropout does not change.

    Args:
        function: `function(params, rows, **others)` → [B, …]. `rows` is a pytree of arrays [B, …],
            and each row's result depends on that row alone. If there is one device, the function
            itself is returned.
    """
    mesh = device_mesh()
    if mesh.size == 1:
        return function

    def spread(params: Any, rows: Any, **others: Any) -> jax.Array:
        count = len(jax.tree.leaves(rows)[0])
        rows = jax.tree.map(lambda leaf: _filled(jnp.asarray(leaf), filled_up(count, mesh)), rows)
        rows = jax.lax.with_sharding_constraint(rows, split(mesh))
        result = jax.lax.with_sharding_constraint(function(params, rows, **others), split(mesh))
        return jax.lax.with_sharding_constraint(result, whole(mesh))[:count]

    return spread


def jit_whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `jax.jit` of a function, with results that every device holds whole."""
    return jax.jit(function, out_shardings=whole(device_mesh()))


def map_batches(
    function: Callable[..., Any],
    rows: Sequence[Any],
    shared: Sequence[Any] = (),
    *,
    batch_size: int,
    **static: Any,
) -> Any:
    """Apply `function(*rows, *shared, **static)` to batches of the rows, on all devices.

    The last batch is padded with copies of its first row, whose results are dropped, so that only
    one shape is compiled. On a CPU, one batch runs on each core at the same time, because most of
    XLA's small operations use one core. The results are jax arrays [Q, …].

    Args:
        function: takes and returns arrays (or pytrees of arrays) with a leading axis of any length,
            and treats rows independently.
        rows: arrays [Q, …], all with the same Q.
        shared: further arrays, which every device receives whole.
        batch_size: the most rows that a device works on in one call.
        static: further arguments of `function`; hashable, and constant in the compiled code.

    Raises:
        ValueError: there are no rows.
    """
    total = len(rows[0])
    if total == 0:
        raise ValueError("map_batches needs at least one row")
    mesh = device_mesh()
    # on other devices a call returns before its work is done, so that one thread keeps them busy
    threads = (os.cpu_count() or 1) if jax.default_backend() == "cpu" and mesh.size == 1 else 1
    batch_size = _even(total, batch_size, threads * mesh.size)
    step = batch_size * mesh.size
    shared = [jax.device_put(array, whole(mesh)) for array in shared]
    apply = _over_mesh(function, mesh, len(rows), len(shared), tuple(sorted(static.items())))

    def run(start: int) -> Any:
        batch = [_filled(array[start : start + step], step) for array in rows]
        result = apply(*(jax.device_put(array, split(mesh)) for array in batch), *shared)
        # without waiting, one thread would take all batches, and calls of one thread run one after
        # another
        return jax.block_until_ready(result) if threads > 1 else result

    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(run, range(0, total, step)))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[:total], *results)


def _even(total: int, most: int, workers: int) -> int:
    """Return a batch size, at most `most`, that gives all workers about equally many rows.

    It is rounded up to a power of two, and above 64 to a multiple of eight, so that few shapes are
    compiled.
    """
    rounds = math.ceil(total / (workers * most))
    share = math.ceil(total / (workers * rounds))
    rounded = 8 * math.ceil(share / 8)
    if share <= 64:
        rounded = 2 ** (share - 1).bit_length()
    return min(most, rounded)


def _filled(batch: Any, size: int) -> Any:
    """The batch, padded with copies of its first row.

    Indexing is used because arrays of random keys support it.
    """
    if len(batch) == size:
        return batch
    positions = np.arange(size)
    return batch[np.where(positions < len(batch), positions, 0)]


@functools.lru_cache(maxsize=128)
def _over_mesh(
    function: Callable[..., Any],
    mesh: Mesh,
    rows: int,
    shared: int,
    static: tuple[tuple[str, Any], ...],
) -> Callable[..., Any]:
    """Return a function that is jitted and split over the devices of a mesh.

    It is cached because `jax.jit` compiles again for each new function object.
    """
    mapped = jax.shard_map(
        functools.partial(function, **dict(static)),
        mesh=mesh,
        in_specs=(PartitionSpec(AXIS),) * rows + (PartitionSpec(),) * shared,
        out_specs=PartitionSpec(AXIS),
        check_vma=False,  # scans in `function` start from constants, which count as replicated
    )
    return jax.jit(mapped)
