"""What tables and figures read from inside a run: the LM's scores of subsets, latencies, ranks of what is chosen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from ceil_jax.pipeline.run import Run
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.training.candidates import log_probs

T = TypeVar("T")

REPEATS = 5


def subset_scores(run: Run) -> np.ndarray:
    """Return the LM scores of the subsets that a run's CEIL learns from, float [Q, M]; the top-k subset is first."""
    return log_probs(run.trainer.ceil_scores.rows)


class Latency(NamedTuple):
    """Seconds for all queries of a task: medians of REPEATS, without compilation."""

    queries: int
    bank: int
    encode: float
    shortlist: float
    map: float


def measure_latency(pipeline: Run, method: str) -> Latency:
    """Measure a method with the run's n and K and with the bank's vectors in memory.

    Args:
        pipeline: the run.
        method: a row of METHODS that ends in MAP, or that takes the nearest: its K nearest are found, and MAP takes 0
            s.
    """
    from ceil_jax.retrieval.index import top_k
    from ceil_jax.retrieval.shortlists import greedy_map_shortlists

    entry = pipeline.used(method)
    assert (entry.needs.ends_in_map or entry.needs.ends_in_nearest) and entry.encoder is not None
    config, encoders, bank = pipeline.config, pipeline.encoders(entry.encoder), pipeline.bank_of(entry)
    items = unit_rows(pipeline.embed(encoders.context, [example.input for example in bank]))
    texts = [example.input for example in pipeline.views.seen(pipeline.task.validation)]
    vectors, encode = _timed(lambda: unit_rows(encoders.query.encode(texts)))
    n = min(max(config.shortlist, config.shots) if entry.needs.ends_in_map else config.shots, len(bank))
    (_, shortlists), shortlist = _timed(lambda: top_k(vectors, items, n))
    if not entry.needs.ends_in_map:
        return Latency(len(texts), len(bank), encode, shortlist, 0.0)
    trade_off = pipeline.trade_off_of(entry)
    _, greedy = _timed(lambda: greedy_map_shortlists(vectors, items, shortlists, config.shots, trade_off))
    return Latency(len(texts), len(bank), encode, shortlist, greedy)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result and the median seconds of a function of numpy arrays; the first call compiles and does not count."""
    result = work()
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return result, float(np.median(seconds))


def chosen_ranks(pipeline: Run, method: str) -> list[int]:
    """Return the rank by similarity to the query, from 1, of every example that a method chooses.

    Args:
        pipeline: the run, whose validation queries are asked.
        method: a row of METHODS with an encoder.
    """
    entry = pipeline.used(method)
    assert entry.encoder is not None
    queries = pipeline.task.validation
    seen = pipeline.views.seen(queries)
    encoders, bank = pipeline.encoders(entry.encoder), pipeline.bank_of(entry)
    near = pipeline.search.nearest(
        encoders, bank, seen, max(pipeline.config.shortlist, pipeline.config.shots)
    )
    chosen = pipeline.retrieve(method, queries)
    ranks = []
    for picks, nearest in zip(chosen, near, strict=True):
        rank = {pick.position: i for i, pick in enumerate(nearest, 1)}
        ranks += [rank.get(pick.position, len(nearest) + 1) for pick in picks]
    return ranks
