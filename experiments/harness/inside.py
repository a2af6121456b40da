"""Measurements from inside a run: latencies, and the ranks of the chosen examples."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.example_encoder import example_encoder
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.export import encoders_of
from ceil_jax.pipeline.setup import Session
from ceil_jax.pipeline.steps import StepsOf

T = TypeVar("T")

REPEATS = 5


class Latency(NamedTuple):
    """Seconds for all queries of a task: medians of REPEATS, without compilation."""

    queries: int
    bank: int
    encode: float
    shortlist: float
    map: float


def measure_latency(session: Session, method: str) -> Latency:
    """Measure a method with the run's n and K and with the bank's vectors in memory.

    Args:
        session: the run.
        method: the name of a row that ends in MAP, or that takes the nearest: its K nearest are
            found, and MAP takes 0 s.
    """
    from ceil_jax.retrieval.index import top_k
    from ceil_jax.retrieval.shortlists import greedy_map_shortlists

    run, setup = session
    row = setup.row(method)
    config = setup.config
    assert row.exports
    steps = StepsOf(setup)
    learnt = steps.learnt(row.method)
    items = run.get(steps.bank_vectors(learnt))
    _, query_encoder = encoders_of(run, learnt)
    queries = run.get(steps.texts(setup.queries))
    side = example_encoder(query_encoder)
    vectors, encode = _timed(lambda: unit_rows(side.encode_queries(queries)))
    n = min(
        max(config.shortlist, config.shots) if row.needs.ends_in_map else config.shots, len(items)
    )
    (_, shortlists), shortlist = _timed(lambda: top_k(vectors, items, n))
    if not row.needs.ends_in_map:
        return Latency(len(queries), len(items), encode, shortlist, 0.0)
    trade_off = run.value(row_stages.choice(setup, row).trade_off)
    assert trade_off is not None
    _, greedy = _timed(
        lambda: greedy_map_shortlists(vectors, items, shortlists, config.shots, trade_off)
    )
    return Latency(len(queries), len(items), encode, shortlist, greedy)


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


def chosen_ranks(session: Session, method: str) -> list[int]:
    """Return the rank by similarity to the query, from 1, of every example that a method chooses.

    Args:
        session: the run, whose validation queries are asked.
        method: the name of a row with an encoder.
    """
    run, setup = session
    row = setup.row(method)
    assert row.encodes
    n = max(setup.config.shortlist, setup.config.shots)
    steps = StepsOf(setup)
    shortlists = run.get(steps.nearest(steps.learnt(row.method), setup.queries, n)).positions
    choice = run.get(row_stages.choice(setup, row)).positions
    ranks = []
    for shortlist, positions in zip(shortlists.tolist(), choice.tolist(), strict=True):
        rank = {position: i for i, position in enumerate(shortlist, 1)}
        ranks += [rank.get(p, len(shortlist) + 1) for p in positions if p >= 0]
    return ranks
