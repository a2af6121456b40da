"""`jax.vmap` in chunks that stay in a CPU's caches.

A batched matrix product of hundreds of queries' features runs on a CPU at a small part of its
speed, and a scan reads the features of all queries again in each step. Chunks of a few queries, one
after the other, mend both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

CHUNK_ON_CPU = 2**19
"""Numbers in the largest argument that are worked on together on a CPU: 2 MiB, to stay near the
caches."""

CHUNK_ON_DEVICE = 2**28
"""The same on a GPU or TPU: 1 GiB, because a step takes as long for one query there as for
hundreds."""

LEAST_ON_CPU = 4
"""Queries that share the cost of starting an operation, even if their features leave the caches."""


def queries_at_once(numbers: int) -> int:
    """Number of queries to work on together, a power of two, if the largest argument of one holds
    so many numbers."""
    on_cpu = jax.default_backend() == "cpu"
    most = (CHUNK_ON_CPU if on_cpu else CHUNK_ON_DEVICE) // max(1, numbers)
    return 1 << (max(most, LEAST_ON_CPU if on_cpu else 1).bit_length() - 1)


def lifted_in_chunks(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of arrays (or None in their place), which `jax.vmap` lifts by a loop over
    chunks.

    Derivatives are the same too; they are lifted at once, not in chunks.
    """
    chunked = jax.custom_batching.custom_vmap(function)

    @chunked.def_vmap
    def lift(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
        rows = {number: arguments[number] for number, of_query in enumerate(batched) if of_query}

        def one(of_query: dict[int, Any]) -> Any:
            return function(
                *(of_query.get(number, shared) for number, shared in enumerate(arguments))
            )

        largest = max(array.size for array in rows.values()) // size
        results = jax.lax.map(one, rows, batch_size=min(size, queries_at_once(largest)))
        return results, jax.tree.map(lambda _: True, results)

    # custom_vmap alone has no derivatives in reverse mode
    differentiable = jax.custom_jvp(chunked)

    @differentiable.defjvp
    def derivative(primals: Any, tangents: Any) -> tuple[Any, Any]:
        return jax.jvp(function, primals, tangents)

    return differentiable
