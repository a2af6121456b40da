"""`jax.vmap` in chunks that stay in a CPU's caches.

On a CPU, a batched matrix product over hundreds of queries is slow, and a scan reads the features
of all queries again in each step. Working through chunks of a few queries avoids both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

CHUNK_ON_CPU = 2**19
"""The largest chunk on a CPU, in numbers of the largest argument: 2 MiB, about the size of the caches."""

CHUNK_ON_DEVICE = 2**28
"""The largest chunk on a GPU or TPU: 1 GiB, because there a step takes as long for one query as for hundreds."""

LEAST_ON_CPU = 4
"""The smallest number of queries in a chunk on a CPU, even if their features exceed the caches: it
spreads the cost of starting an operation."""


def queries_at_once(numbers: int) -> int:
    """Return the number of queries in a chunk, a power of two.

    `numbers` is how many numbers the largest argument of each query has.
    """
    on_cpu = jax.default_backend() == "cpu"
    numbers_at_once = CHUNK_ON_CPU if on_cpu else CHUNK_ON_DEVICE
    least = LEAST_ON_CPU if on_cpu else 1
    queries = max(numbers_at_once // max(1, numbers), least)
    # rounded down to a power of two
    return 2 ** (queries.bit_length() - 1)


def lifted_in_chunks(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose `jax.vmap` processes the queries chunk by chunk.

    The results are the same. The arguments are arrays or None.

    Its derivatives are also the same; `jax.vmap` computes them for all queries at once.
    """
    chunked = jax.custom_batching.custom_vmap(function)

    @chunked.def_vmap
    def lift(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
        # the arguments that differ between queries, by position; the others are shared by all
        rows = {number: arguments[number] for number, of_query in enumerate(batched) if of_query}

        def of_one_query(row: dict[int, Any]) -> Any:
            return function(*(row.get(number, shared) for number, shared in enumerate(arguments)))

        largest = max(array.size for array in rows.values()) // size
        results = jax.lax.map(of_one_query, rows, batch_size=min(size, queries_at_once(largest)))
        return results, jax.tree.map(lambda _: True, results)

    # custom_vmap alone has no derivatives in reverse mode
    differentiable = jax.custom_jvp(chunked)

    @differentiable.defjvp
    def derivative(primals: Any, tangents: Any) -> tuple[Any, Any]:
        return jax.jvp(function, primals, tangents)

    return differentiable
