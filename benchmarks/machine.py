"""A description of the machine on which numbers are measured, and two lower bounds on the time of any program."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import time
from typing import Any

import jax
import jax.numpy as jnp

from ceil_jax.distributed.machine import processor

PACKAGES = (
    "jax",
    "jaxlib",
    "numpy",
    "torch",
    "transformers",
    "sentence-transformers",
    "faiss-cpu",
    "dppy",
)


def describe() -> dict[str, Any]:
    """Return a description of the machine: device, processor, memory, versions, settings and the
    load at the start."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": jax.devices()[0].device_kind,
        "devices": jax.device_count(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "flags": {
            name: os.environ[name]
            for name in ("XLA_FLAGS", "OMP_NUM_THREADS")
            if name in os.environ
        },
    }


def floors(small: bool = False) -> dict[str, float]:
    """Return the bytes per second that a device streams from memory, and its float32 operations per
    second in a matrix product.

    The best of a few runs: of a sum over an array far larger than the caches, and of a square
    product in full float32.
    """
    n = 1_000_000 if small else 100_000_000
    side = 256 if small else 4096
    array = jnp.ones(n, jnp.float32)
    square = jnp.ones((side, side), jnp.float32)
    total = jax.jit(jnp.sum)
    product = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    return {
        "bytes_per_second": 4 * n / _best(total, array),
        "flop_per_second": 2 * side**3 / _best(product, square),
    }


def _best(function: Any, argument: jax.Array, runs: int = 5) -> float:
    jax.block_until_ready(function(argument))
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        jax.block_until_ready(function(argument))
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
