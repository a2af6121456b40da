"""What tables and figures read from inside a run: latencies, and the ranks of what is chosen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from ceil_jax.pipeline.encoders import Encoded
from ceil_jax.pipeline.graph import Opened
from ceil_jax.retrieval.embedded_bank import unit_rows

T = TypeVar("T")

REPEATS = 5


class Latency(NamedTuple):
    """Seconds for all queries of a task: medians of REPEATS, without compilation."""

    queries: int
    bank: int
    encode: float
    shortlist: float
    map: float


def measure_latency(opened: Opened, method: str) -> Latency:
    """Measure a method with the run's n and K and with the bank's vectors in memory.

    Args:
        opened: the run.
        method: a row of METHODS that ends in MAP, or that takes the nearest: its K nearest are
            found, and MAP takes 0 s.
    """
    from ceil_jax.retrieval.index import top_k
    from ceil_jax.retrieval.shortlists import greedy_map_shortlists

    run, graph = opened
    entry, config = graph.method(method), graph.config
    assert entry.exports
    used = graph.encoders(entry.encoder or "base")
    encoders, items = (
        run.get(used),
        run.get(Encoded(used, graph.bank_texts(entry.encoder), "context")),
    )
    texts = [example.input for example in run.get(graph.texts(graph.queries))]
    vectors, encode = _timed(lambda: unit_rows(encoders.query.encode(texts)))
    n = min(
        max(config.shortlist, config.shots) if entry.needs.ends_in_map else config.shots, len(items)
    )
    (_, shortlists), shortlist = _timed(lambda: top_k(vectors, items, n))
    if not entry.needs.ends_in_map:
        return Latency(len(texts), len(items), encode, shortlist, 0.0)
    trade_off = run.value(graph.chosen(method).trade_off)
    assert trade_off is not None
    _, greedy = _timed(
        lambda: greedy_map_shortlists(vectors, items, shortlists, config.shots, trade_off)
    )
    return Latency(len(texts), len(items), encode, shortlist, greedy)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result and the median seconds of a function of numpy arrays; the first call compiles and
    does not count."""
    result = work()
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return result, float(np.median(seconds))


def chosen_ranks(opened: Opened, method: str) -> list[int]:
    """Return the rank by similarity to the query, from 1, of every example that a method chooses.

    Args:
        opened: the run, whose validation queries are asked.
        method: a row of METHODS with an encoder.
    """
    run, graph = opened
    entry, n = graph.method(method), max(graph.config.shortlist, graph.config.shots)
    assert entry.encoder is not None
    near = run.get(graph.nearest(entry.encoder, graph.queries, n))
    ranks = []
    for picks, nearest in zip(run.get(graph.chosen(method)), near, strict=True):
        rank = {pick.position: i for i, pick in enumerate(nearest, 1)}
        ranks += [rank.get(pick.position, len(nearest) + 1) for pick in picks]
    return ranks
