"""The choice of the head for a task, on held-out rows of its bank.

No LM and no validation query is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.retrieval.ranking import best_first
from ceil_jax.training.free.head import fold_numbers
from ceil_jax.training.free.rows import (
    Cosine,
    Head,
    Observations,
    example_vectors,
    query_vectors,
)
from ceil_jax.training.loop import better_beyond_noise

FOLDS = 5
"""The number of folds of cross-fitting."""

Fit = Callable[..., Head]
"""A function (rows of a bank, like=None) → a head trained on the rows. With `like`, another head of
that kind, the new head gives examples the same blocks as `like`, and maps only queries
differently."""


def fit_cosine(rows: Observations, like: Cosine | None = None) -> Cosine:
    """Return `Cosine`, the head that learns nothing."""
    return Cosine()


def with_cosine(fits: Mapping[str, Fit]) -> Mapping[str, Fit]:
    """Return the ways to fit a similarity. If there are several, plain cosine similarity is one more.

    >>> list(with_cosine({"labels": fit_cosine, "structures": fit_cosine}))
    ['cosine', 'labels', 'structures']
    >>> list(with_cosine({"labels": fit_cosine}))
    ['labels']
    """
    return fits if len(fits) < 2 else {"cosine": fit_cosine, **fits}


def nearest(
    head: Head, bank: Observations, queries: Observations, k: int
) -> Int[np.ndarray, "q k"]:
    """Return the positions in the bank of each query's k most relevant examples, best first.

    Args:
        head: gives vectors whose dot product is relevance.
        bank: the examples, as inputs of the head.
        queries: the queries, as inputs of the head; outputs are not read.
        k: examples for each query, at most as many as in the bank.
    """
    scores = query_vectors(head, queries) @ example_vectors(head, bank).T
    return np.stack([best_first(row, k) for row in scores])


def agreement(
    fits: Mapping[str, Fit], rows: Observations, kind: Literal["label", "structures"], k: int
) -> dict[str, Float[np.ndarray, " q"]]:
    """Return how well the outputs of the k nearest examples agree with a held-out row's own output.

    For every fit and row: the share with the same label, or the mean F1 of structures.

    Each head is fitted on nine tenths of the bank, and chooses among these. The other rows, at
    least 20 if the bank has 40, are the queries.

    Args:
        fits: the fits by name.
        rows: the bank.
        kind: whether labels or structures are compared.
        k: examples for each query.
    """
    parts = (
        rows.structures
        if kind == "structures"
        else [frozenset([output]) for output in rows.outputs]
    )

    def f1(query: int, example: int) -> float:
        in_query = parts[query]
        in_example = parts[example]
        return 2 * len(in_query & in_example) / max(len(in_query) + len(in_example), 1)

    count = len(rows.texts)
    out = min(max(20, count // 10), count // 2)
    shuffled = np.random.default_rng([0, count]).permutation(count)
    outside = np.sort(shuffled[:out])
    inside = np.sort(shuffled[out:])
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
    """Return the blocks of all bank rows as queries.

    Each is by a head that was fitted without this row.

    What starts from a head (candidates, λ, EPR, CEIL) is trained on queries of the bank. A head
    that was fitted on a query predicts its output better than that of a new query, which would
    mislead training. The blocks are compatible with the blocks of examples by `head`, which `fit`
    has fitted on all rows. `fit` is called once for each fold.
    """
    fold = fold_numbers(len(rows.texts), FOLDS)
    blocks = np.empty_like(head.query_block(rows))
    for part in range(FOLDS):
        inside = np.flatnonzero(fold == part)
        fitted = fit(rows.take(np.flatnonzero(fold != part)), like=head)
        blocks[inside] = fitted.query_block(rows.take(inside))
    return blocks


def best_head(agreements: Mapping[str, Float[np.ndarray, " q"]]) -> str:
    """Return the name of the head with the highest mean `agreement`.

    It is "cosine" if that head is not significantly better than the cosine. `with_cosine` has added
    the cosine to the heads.
    """
    best = max(agreements, key=lambda name: float(agreements[name].mean()))
    return best if better_beyond_noise(agreements[best], agreements["cosine"]) else "cosine"
