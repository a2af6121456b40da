"""One function over many rows: in batches of one shape, spread over all devices.

What `jax.pmap` over the GPUs of a machine gave, with today's interface: `jit` of `shard_map` over a 1-D mesh.
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
    return jax.make_mesh(
        (jax.local_device_count(),), (AXIS,), axis_types=(AxisType.Auto,), devices=jax.local_devices()
    )


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
    split, whole = NamedSharding(mesh, PartitionSpec(AXIS)), NamedSharding(mesh, PartitionSpec())
    shared = [jax.device_put(array, whole) for array in shared]

    def put(start: int) -> list[jax.Array]:
        return [jax.device_put(_filled(array[start : start + step], step), split) for array in rows]

    starts = range(0, total, step)
    first = put(0)
    shapes = tuple((array.shape, array.dtype) for array in (*first, *shared))
    # compiled before the threads start, or each of them would
    compiled = _compiled(function, mesh, len(rows), shapes, tuple(sorted(static.items())))
    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(lambda start: compiled(*(put(start) if start else first), *shared), starts))
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
    split, whole = PartitionSpec(AXIS), PartitionSpec()
    specs = (split,) * rows + (whole,) * (len(shapes) - rows)
    mapped = jax.shard_map(
        functools.partial(function, **dict(static)),
        mesh=mesh,
        in_specs=specs,
        out_specs=split,
        check_vma=False,  # scans in `function` start from constants, which are the same on every device
    )
    arguments = [
        jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))
        for (shape, dtype), spec in zip(shapes, specs, strict=True)
    ]
    return jax.jit(mapped).lower(*arguments).compile()
