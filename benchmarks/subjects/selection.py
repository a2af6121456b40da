"""The selection service: one query and a bank of 100,000, with everything loaded, and without encoding the query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import cycle

import numpy as np

from benchmarks import workloads
from benchmarks.harness import OURS, Case, Disagreement, Settings
from ceil_jax.selector import CeilSelector, Selection

BANK = 100_000
K = 8


class KnownVectors:
    """A stand-in for an encoder: a query's text is its number, and its vector is already known."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors
        self.dim = vectors.shape[1]

    def encode(self, texts: list[str]) -> np.ndarray:
        return self.vectors[[int(text) for text in texts]]


def cases(settings: Settings) -> Iterator[Case]:
    for d in (384, 768):
        count = 300 if settings.small else BANK
        rng = np.random.default_rng(0)
        items = workloads.bank(rng, count, d)
        encoder = KnownVectors(workloads.queries(rng, items, 16))
        examples = [{"input": f"example {i}", "output": f"label {i % 5}"} for i in range(count)]
        selector = CeilSelector.from_examples(examples, encoder=encoder, vectors=items)
        texts = cycle(map(str, range(16)))
        yield Case(
            f"one query, {count:,} x {d}, k = {K}",
            {OURS: partial(_select, selector, texts)},
            full,
            at_most=0.030,
            work={"bytes of vectors": 4.0 * items.size},
        )


def _select(selector: CeilSelector, texts: Iterator[str]) -> Selection:
    return selector.select(next(texts), k=K)


def full(results: Mapping[str, Selection]) -> str:
    """Check that there are as many different examples as requested, and that the most relevant is last."""
    picks = results[OURS].picks
    if len({pick.example.id for pick in picks}) != K or picks[-1].relevance != max(
        p.relevance for p in picks
    ):
        raise Disagreement(f"{len(picks)} picks: {picks}")
    return f"{K} examples"
