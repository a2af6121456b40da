"""One function over many rows, on all devices: a 1-D mesh, the rows split over it, everything else whole.

What `jax.pmap` over the GPUs of a machine gave, with today's interface. `map_batches` is for functions that
treat rows apart, on the devices of this process; `over_devices` is for a part of a step in which the rows meet
(a batch's loss), on the devices of all processes.
"""

from __future__ import annotations

import functools
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
    """All devices of this process in a row; further processes map rows of their own."""
    return _row(jax.local_devices())


def global_mesh() -> Mesh:
    """All devices of all processes in a row: what one training step spans."""
    return _row(jax.devices())


def _row(devices: Sequence[jax.Device]) -> Mesh:
    return jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)


def split(mesh: Mesh) -> NamedSharding:
    """Each device holds its share of the leading axis."""
    return NamedSharding(mesh, PartitionSpec(AXIS))


def whole(mesh: Mesh) -> NamedSharding:
    """Every device holds everything."""
    return NamedSharding(mesh, PartitionSpec())


def filled_up(rows: int, mesh: Mesh) -> int:
    """The next multiple of the number of devices."""
    return -(-rows // mesh.size) * mesh.size


def over_devices(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """`function(params, rows, **others)` → [B, …] for use inside a jitted step, its rows split over all devices.

    The step is written as for one device and XLA partitions it: each device computes its share of the rows,
    then all get all results, so that what follows (in-batch negatives, a mean over the batch) sees the whole
    batch and the loss does not depend on the number of devices. B that they do not divide is filled up with
    copies of the first row whose results are cut off, hence without gradient. They come last, and JAX's random
    bits depend on a place alone, so the others' dropout is the same on any number of devices.

    `rows` is a pytree of arrays [B, …]; rows must not depend on one another in `function`.
    """
    mesh = global_mesh()
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
    """`jax.jit` whose results every device of every process holds whole, so that each process can read them."""
    return jax.jit(function, out_shardings=whole(global_mesh()))


def map_batches(
    function: Callable[..., Any],
    rows: Sequence[Any],
    shared: Sequence[Any] = (),
    *,
    batch_size: int,
    **static: Any,
) -> Any:
    """`function(*rows, *shared, **static)` on batches of the rows, a device at a time `batch_size` of them.

    `function` takes and returns arrays (or pytrees of them) with a leading axis of any length and treats
    rows independently. `rows` are arrays [Q, …] of one Q; `shared` go whole to every device; `static` are
    hashable and compiled in. The last batch is filled up with copies of its first row, so that one shape is
    compiled, and what they give is cut off. On a CPU as many batches run side by side as it has cores: most
    of XLA's small operations use one. The results come as jax arrays [Q, …].

    Raises:
        ValueError: no rows.
    """
    total = len(rows[0])
    if total == 0:
        raise ValueError("map_batches needs at least one row")
    mesh = device_mesh()
    # elsewhere a call returns before its work is done, and one thread keeps the devices busy
    threads = (os.cpu_count() or 1) if jax.default_backend() == "cpu" and mesh.size == 1 else 1
    batch_size = _even(total, batch_size, threads * mesh.size)
    step = batch_size * mesh.size
    shared = [jax.device_put(array, whole(mesh)) for array in shared]

    def put(start: int) -> list[jax.Array]:
        return [jax.device_put(_filled(array[start : start + step], step), split(mesh)) for array in rows]

    starts = range(0, total, step)
    first = put(0)
    shapes = tuple((array.shape, array.dtype) for array in (*first, *shared))
    # compiled before the threads start, or each of them would
    compiled = _compiled(function, mesh, len(rows), shapes, tuple(sorted(static.items())))

    def run(start: int) -> Any:
        result = compiled(*(put(start) if start else first), *shared)
        # a thread that does not wait takes all batches, and the calls of one thread run one after another
        return jax.block_until_ready(result) if threads > 1 else result

    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(run, starts))
    if len(results) == 1:
        return jax.tree.map(lambda leaf: leaf[:total], results[0])
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[:total], *results)


def _even(total: int, most: int, workers: int) -> int:
    """Rows of a batch, `most` at most, such that the workers have as much to do as each other.

    Rounded up, to powers of two and beyond 64 to multiples of eight, so that few shapes are ever compiled.
    """
    rounds = -(-total // (workers * most))
    share = -(-total // (workers * rounds))
    return min(most, 1 << (share - 1).bit_length() if share <= 64 else -(-share // 8) * 8)


def _filled(batch: Any, size: int) -> Any:
    """The batch and copies of its first row. By indexing, which arrays of keys have too."""
    if len(batch) == size:
        return batch
    places = np.arange(size)
    return batch[np.where(places < len(batch), places, 0)]


@functools.lru_cache(maxsize=128)
def _compiled(
    function: Callable[..., Any],
    mesh: Mesh,
    rows: int,
    shapes: tuple[tuple[tuple[int, ...], Any], ...],
    static: tuple[tuple[str, Any], ...],
) -> Callable[..., Any]:
    """Kept between calls: `jax.jit` of a new function object would compile anew each time."""
    specs = (PartitionSpec(AXIS),) * rows + (PartitionSpec(),) * (len(shapes) - rows)
    mapped = jax.shard_map(
        functools.partial(function, **dict(static)),
        mesh=mesh,
        in_specs=specs,
        out_specs=PartitionSpec(AXIS),
        check_vma=False,  # scans in `function` start from constants, which are the same on every device
    )
    arguments = [
        jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))
        for (shape, dtype), spec in zip(shapes, specs, strict=True)
    ]
    return jax.jit(mapped).lower(*arguments).compile()
