"""Which free row suits a task: a rule on rows of the bank, which needs no LM and no validation query."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.training.free.head import fold_numbers
from ceil_jax.training.free.output_similarity import Kind, OutputComparison
from ceil_jax.training.free.rows import FreeMethod, Observed
from ceil_jax.training.loop import better_beyond_noise

Fits = Mapping[str, Callable[[Observed], FreeMethod]]
"""Name → training of a free method on rows of a bank."""


def measured_by(rows: Observed, same_choices: bool) -> Kind:
    """Return the similarity of outputs that rows of a task are judged by: equal labels where all examples have the
    same choices, else the F1 of structures where outputs parse, else of words."""
    return "label" if same_choices else "structures" if rows.structures else "tokens"


def held_out_rows(count: int) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"]]:
    """Return (inside, outside): nine tenths of a bank's rows and the others, of which there are at least 20 where the
    bank has 40."""
    order = np.random.default_rng([0, count]).permutation(count)
    out = min(max(20, count // 10), count // 2)
    return np.sort(order[out:]), np.sort(order[:out])


def nearest(method: FreeMethod, bank: Observed, queries: Observed, k: int) -> Int[np.ndarray, "q k"]:
    """Return the places in the bank of each query's k most relevant examples, best first."""
    scores = method.query(queries) @ method.examples(bank).T
    near = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    return np.take_along_axis(
        near, np.argsort(-np.take_along_axis(scores, near, 1), axis=1, kind="stable"), 1
    )


def agreement(fits: Fits, rows: Observed, kind: Kind, k: int) -> dict[str, Float[np.ndarray, " q"]]:
    """Return, for every method, the mean similarity of a held-out row's output to those of its k chosen examples.

    Each method is trained on nine tenths of the bank, among which it chooses; the others are the queries.
    """
    inside, outside = held_out_rows(len(rows.texts))
    bank, queries, similarity = rows.take(inside), rows.take(outside), OutputComparison(kind, rows)
    found = {}
    for name, fit in fits.items():
        chosen = inside[nearest(fit(bank), bank, queries, k)]
        values = [similarity(own[None], some)[0].mean() for own, some in zip(outside, chosen, strict=True)]
        found[name] = np.array(values)
    return found


def cross_fitted_shortlists(
    fit: Callable[[Observed], FreeMethod], rows: Observed, n: int, folds: int = 5
) -> Int[np.ndarray, "rows n"]:
    """Return each bank row's n most relevant other rows, by a method that was trained without this row's output.

    EPR goes on from them: a method that has learnt a query's output finds examples of that output better than it will
    for a new query. `fit` is called once a fold.
    """
    fold = fold_numbers(len(rows.texts), folds)
    found = np.empty((len(rows.texts), n), np.int32)
    for part in range(folds):
        own = np.flatnonzero(fold == part)
        near = nearest(fit(rows.take(np.flatnonzero(fold != part))), rows, rows.take(own), n + 1)
        # the last one goes where the row itself is not among them
        others = np.argsort(near == own[:, None], axis=1, kind="stable")[:, :n]
        found[own] = np.take_along_axis(near, others, axis=1)
    return found


def best_free(found: Mapping[str, Float[np.ndarray, " q"]], start: str = "cosine") -> str:
    """Return the method with the highest mean `agreement`, or `start` where none is better than it beyond noise."""
    best = max(found, key=lambda name: float(found[name].mean()))
    return best if better_beyond_noise(found[best], found[start]) else start
