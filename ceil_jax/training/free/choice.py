"""The choice of the head that suits a task: by a rule on rows of the bank, which needs no LM and no
validation query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.retrieval.ranking import best_first
from ceil_jax.training.free.head import fold_numbers
from ceil_jax.training.free.rows import Head, Observations, example_vectors, query_vectors
from ceil_jax.training.loop import better_beyond_noise

FOLDS = 5
"""The parts of the bank whose queries are mapped without what their outputs have taught."""

Fit = Callable[..., Head]
"""(Rows of a bank, like=None) → a head trained on them. With `like`, a head of that kind, the blocks
of examples are those of `like`, and only queries are mapped anew."""


def nearest(
    head: Head, bank: Observations, queries: Observations, k: int
) -> Int[np.ndarray, "q k"]:
    """Return the positions in the bank of each query's k most relevant examples, best first.

    Args:
        head: gives vectors whose dot product is relevance.
        bank: the examples, as the head sees them.
        queries: likewise; their outputs are not read.
        k: examples of each query, at most the bank's.
    """
    scores = query_vectors(head, queries) @ example_vectors(head, bank).T
    return np.stack([best_first(row, k) for row in scores])


def agreement(
    fits: Mapping[str, Fit], rows: Observations, kind: Literal["label", "structures"], k: int
) -> dict[str, Float[np.ndarray, " q"]]:
    """Return, for every method, the mean similarity of a held-out row's output to those of its k
    chosen examples: the share with its label, or the F1 of its structures and theirs.

    Each method is trained on nine tenths of the bank, among which it chooses; the others, at least
    20 where the bank has 40, are the queries.

    Args:
        fits: methods by name.
        rows: the bank.
        kind: what of two outputs is compared.
        k: examples that are chosen for each query.
    """
    held = (
        rows.structures
        if kind == "structures"
        else [frozenset([output]) for output in rows.outputs]
    )

    def f1(one: int, other: int) -> float:
        return 2 * len(held[one] & held[other]) / max(len(held[one]) + len(held[other]), 1)

    count = len(rows.texts)
    out = min(max(20, count // 10), count // 2)
    outside, inside = map(
        np.sort, np.split(np.random.default_rng([0, count]).permutation(count), [out])
    )
    bank = rows.take(inside)
    queries = rows.take(outside)
    agreements = {}
    for name, fit in fits.items():
        chosen = inside[nearest(fit(bank), bank, queries, k)]
        alike = [
            [f1(row, example) for example in examples]
            for row, examples in zip(outside, chosen, strict=True)
        ]
        agreements[name] = np.array(alike, np.float32).mean(axis=1)
    return agreements


def cross_fitted_blocks(fit: Fit, head: Head, rows: Observations) -> Float[np.ndarray, "rows w"]:
    """Return the blocks of all bank rows as queries, each by a head that was trained without this
    row's output.

    What goes on from a head (candidates, λ, EPR, CEIL) learns from queries of the bank. A head that
    has learnt a query's output knows it better than it will that of a new query. The blocks go with
    those of examples by `head`, which `fit` has trained on all rows. `fit` is called once a fold.
    """
    fold = fold_numbers(len(rows.texts), FOLDS)
    blocks = np.empty_like(head.query_block(rows))
    for part in range(FOLDS):
        inside = np.flatnonzero(fold == part)
        other = fit(rows.take(np.flatnonzero(fold != part)), like=head)
        blocks[inside] = other.query_block(rows.take(inside))
    return blocks


def best_head(agreements: Mapping[str, Float[np.ndarray, " q"]]) -> str:
    """Return the head with the highest mean `agreement`, or "cosine" where none is better beyond
    noise."""
    best = max(agreements, key=lambda name: float(agreements[name].mean()))
    return best if better_beyond_noise(agreements[best], agreements["cosine"]) else "cosine"
