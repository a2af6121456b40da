"""Which free row suits a task: a rule on rows of the bank, which needs no LM and no validation
query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.training.free.head import fold_numbers
from ceil_jax.training.free.rows import FreeMethod, Observed
from ceil_jax.training.loop import better_beyond_noise

_FOLDS = 5

Fit = Callable[..., FreeMethod]
"""(Rows of a bank, like=None) → a free method trained on them. With `like`, a method of that kind,
the vectors of examples are those of `like`, and only queries are mapped anew."""


def nearest(
    method: FreeMethod, bank: Observed, queries: Observed, k: int
) -> Int[np.ndarray, "q k"]:
    """Return the places in the bank of each query's k most relevant examples, best first."""
    scores = method.query(queries) @ method.examples(bank).T
    near = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    return np.take_along_axis(
        near, np.argsort(-np.take_along_axis(scores, near, 1), axis=1, kind="stable"), 1
    )


def agreement(
    fits: Mapping[str, Fit], rows: Observed, kind: Literal["label", "structures"], k: int
) -> dict[str, Float[np.ndarray, " q"]]:
    """Return, for every method, the mean similarity of a held-out row's output to those of its k
    chosen examples: the share with its label, or the F1 of its structures and theirs.

    Each method is trained on nine tenths of the bank, among which it chooses; the others, at least
    20 where the bank has 40, are the queries.
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
    bank, queries = rows.take(inside), rows.take(outside)
    found = {}
    for name, fit in fits.items():
        chosen = inside[nearest(fit(bank), bank, queries, k)]
        alike = [[f1(own, one) for one in some] for own, some in zip(outside, chosen, strict=True)]
        found[name] = np.array(alike, np.float32).mean(axis=1)
    return found


def cross_fitted_queries(
    fit: Fit, method: FreeMethod, rows: Observed
) -> Float[np.ndarray, "rows d"]:
    """Return the vectors of all bank rows as queries, each by a method that was trained without
    this row's output.

    What goes on from a free method (candidates, λ, EPR, CEIL) learns from queries of the bank. A
    method that has learnt a query's output knows it better than it will that of a new query. The
    vectors go with those of examples by `method`, which `fit` has trained on all rows. `fit` is
    called once a fold.
    """
    fold = fold_numbers(len(rows.texts), _FOLDS)
    found = np.empty_like(method.query(rows))
    for part in range(_FOLDS):
        own = np.flatnonzero(fold == part)
        found[own] = fit(rows.take(np.flatnonzero(fold != part)), like=method).query(rows.take(own))
    return found


def best_free(found: Mapping[str, Float[np.ndarray, " q"]]) -> str:
    """Return the method with the highest mean `agreement`, or "cosine" where none is better beyond
    noise."""
    best = max(found, key=lambda name: float(found[name].mean()))
    return best if better_beyond_noise(found[best], found["cosine"]) else "cosine"
