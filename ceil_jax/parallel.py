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
    # few rows: no larger shape than they need, in powers of two so that few shapes are ever compiled
    batch_size = min(batch_size, 1 << (-(-total // mesh.size) - 1).bit_length())
    step = batch_size * mesh.size
    compiled = _compiled(function, mesh, len(rows), len(shared), tuple(sorted(static.items())))
    split, whole = NamedSharding(mesh, PartitionSpec(AXIS)), NamedSharding(mesh, PartitionSpec())
    shared = [jax.device_put(array, whole) for array in shared]

    def run(start: int) -> Any:
        batch = [jax.device_put(_filled(array[start : start + step], step), split) for array in rows]
        return compiled(*batch, *shared)

    starts = range(0, total, step)
    # elsewhere a call returns before its work is done, and one thread keeps the devices busy
    threads = os.cpu_count() if jax.default_backend() == "cpu" and mesh.size == 1 else 1
    first = run(starts[0])  # compiles
    with ThreadPoolExecutor(threads) as pool:
        results = [first, *pool.map(run, starts[1:])]
    if len(results) == 1:
        return jax.tree.map(lambda leaf: leaf[:total], results[0])
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[:total], *results)


def _filled(batch: Any, size: int) -> Any:
    missing = size - len(batch)
    if missing == 0:
        return batch
    concatenate = jnp.concatenate if isinstance(batch, jax.Array) else np.concatenate
    return concatenate([batch, batch[:1].repeat(missing, axis=0)])


@functools.lru_cache(maxsize=64)
def _compiled(
    function: Callable[..., Any], mesh: Mesh, rows: int, shared: int, static: tuple[tuple[str, Any], ...]
) -> Callable[..., Any]:
    """Kept between calls: `jax.jit` of a new function object would compile anew each time."""
    split, whole = PartitionSpec(AXIS), PartitionSpec()
    return jax.jit(
        jax.shard_map(
            functools.partial(function, **dict(static)),
            mesh=mesh,
            in_specs=(split,) * rows + (whole,) * shared,
            out_specs=split,
            check_vma=False,  # scans in `function` start from constants, which are the same on every device
        )
    )
