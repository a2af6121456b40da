"""Which free row suits a task: a rule on rows of the bank, which needs no LM and no validation query."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.training.free.head import fold_numbers
from ceil_jax.training.free.output_similarity import Kind, OutputSimilarity
from ceil_jax.training.free.rows import FreeMethod, Rows
from ceil_jax.training.loop import better_beyond_noise

Fits = Mapping[str, Callable[[Rows], FreeMethod]]
"""Name → training of a free method on rows of a bank."""


def measured_by(rows: Rows, same_choices: bool) -> Kind:
    """Return the similarity of outputs that rows of a task are judged by: equal labels where all examples have the
    same choices, else the F1 of structures where outputs parse, else of words."""
    return "label" if same_choices else "structures" if rows.structures else "tokens"


def held_out_rows(count: int, seed: int = 0) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"]]:
    """Return (inside, outside): nine tenths of a bank's rows and the others, of which there are at least 20 where the
    bank has 40."""
    order = np.random.default_rng([seed, count]).permutation(count)
    out = min(max(20, count // 10), count // 2)
    return np.sort(order[out:]), np.sort(order[:out])


def nearest(method: FreeMethod, bank: Rows, queries: Rows, k: int) -> Int[np.ndarray, "q k"]:
    """Return the places in the bank of each query's k most relevant examples, best first."""
    scores = method.query(queries) @ method.examples(bank).T
    near = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    return np.take_along_axis(
        near, np.argsort(-np.take_along_axis(scores, near, 1), axis=1, kind="stable"), 1
    )


def agreement(
    fits: Fits, rows: Rows, kind: Kind, k: int, seed: int = 0
) -> dict[str, Float[np.ndarray, " q"]]:
    """Return, for every method, how alike a held-out row's output is to those of the k examples chosen for it.

    Each method is trained on nine tenths of the bank, among which it chooses; the others are the queries.

    Args:
        fits: the methods.
        rows: the bank, with outputs.
        kind: the similarity.
        k: examples a query.
        seed: of the split.
    """
    inside, outside = held_out_rows(len(rows.texts), seed)
    bank, queries, similarity = rows.take(inside), rows.take(outside), OutputSimilarity(kind, rows)
    found = {}
    for name, fit in fits.items():
        chosen = inside[nearest(fit(bank), bank, queries, k)]
        values = [similarity(own[None], some)[0].mean() for own, some in zip(outside, chosen, strict=True)]
        found[name] = np.array(values)
    return found


def cross_fitted_shortlists(
    fit: Callable[[Rows], FreeMethod], rows: Rows, n: int, folds: int = 5
) -> Int[np.ndarray, "rows n"]:
    """Return each bank row's n most relevant other rows, by a method that was trained without this row's output.

    These are the candidates from which EPR or CEIL goes on: a method that has seen a query's output finds examples of
    that output better than it will for a new query.

    Args:
        fit: trains the method; called once a fold.
        rows: the bank, with outputs.
        n: candidates a row.
        folds: parts of the bank.
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
    """Return the method with the highest mean, or `start` where none is better than it beyond noise.

    Args:
        found: what `agreement` returned, `start` among it.
        start: the method that needs no training.
    """
    best = max(found, key=lambda name: float(found[name].mean()))
    return best if better_beyond_noise(found[best], found[start]) else start
