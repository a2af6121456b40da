"""The figure of a comparison: scores, and for one query its candidates, the sets of two methods and the kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.run import Run
from ceil_jax.report.compare import Comparison
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.tasks.example import Example

_SHOWN = 50
"""Number of candidates of the query that are drawn."""


class _Candidates(NamedTuple):
    """One query's candidates, and the sets that methods choose among them."""

    vector: np.ndarray
    items: np.ndarray
    positions: np.ndarray
    kernel: np.ndarray
    sets: dict[str, list[int]]


def closeup(pipeline: Run, comparison: Comparison) -> bytes:
    """Return a PNG of the scores and, if a method uses an encoder, of a query on which two methods differ.

    Args:
        pipeline: the run behind the comparison.
        comparison: its scores.
    """
    view = None
    if any(METHODS[method].encoder for method in comparison.evaluations):
        view = _view(pipeline, comparison, pipeline.task.validation[_telling_query(comparison)])
    return _figure(pipeline, comparison, view)


def _first_and_last(comparison: Comparison) -> tuple[str, str]:
    """Return the two methods whose sets are drawn: top-k, EPR or DPP-MAP, and the last one of the table."""
    last = comparison.rows[-1].method
    return next((m for m in ("topk", "epr", "dpp") if m in comparison.evaluations), last), last


def _telling_query(comparison: Comparison) -> int:
    """Return the index of a query on which the last method scores higher than the first, else 0."""
    first, last = _first_and_last(comparison)
    return int(np.argmax(comparison.evaluations[last].scores > comparison.evaluations[first].scores))


def _view(pipeline: Run, comparison: Comparison, query: Example) -> _Candidates:
    """Return the query's nearest examples, their kernel, and the sets of two methods among them."""
    import jax.numpy as jnp

    from ceil_jax.dpp.kernel import conditional_kernel, relevance, similarity_from_features
    from ceil_jax.retrieval.index import top_k

    first, best = _first_and_last(comparison)
    method = METHODS[best]
    encoders = pipeline.encoders(method.encoder or "base")
    bank = pipeline.bank_of(method)
    items = unit_rows(pipeline.embed(encoders.context, [example.input for example in bank]))
    vector = unit_rows(encoders.query.encode([pipeline.views.seen([query])[0].input]))
    _, near = top_k(vector, items, min(_SHOWN, len(bank)), np.array([-1], np.int32))
    chosen = {
        method: [r.position for r in pipeline.retrieve(method, [query])[0]]
        for method in dict.fromkeys((first, best))
    }
    # examples that a method chose outside the nearest are drawn too
    extra = [p for picks in chosen.values() for p in picks if p not in set(np.asarray(near)[0].tolist())]
    positions = np.concatenate([np.asarray(near)[0], np.array(sorted(set(extra)), np.int32)]).astype(int)
    place = {int(p): i for i, p in enumerate(positions)}
    features = jnp.asarray(items[positions])
    trade_off = pipeline.trade_off_of(method if method.encoder else METHODS["dpp"])
    kernel = np.asarray(
        conditional_kernel(
            relevance(jnp.asarray(vector[0]), features), similarity_from_features(features), trade_off
        )
    )
    sets = {METHODS[m].label: [place[p] for p in chosen[m]] for m in dict.fromkeys((first, best))}
    return _Candidates(vector[0], items[positions], positions, kernel, sets)


def _figure(pipeline: Run, comparison: Comparison, view: _Candidates | None) -> bytes:
    from ceil_jax.report.plots import draw_kernel, draw_plane, draw_scores, image, panels

    figure, axes = panels(1 if view is None else 3, 5.3, 4.8)
    draw_scores(axes[0], comparison)
    axes[0].set_title(f"{comparison.task}, {comparison.lm}", fontsize="medium")
    if view is not None:
        labels = [pipeline.task.train[p].output for p in view.positions]
        draw_plane(axes[1], view.vector, view.items, labels, view.sets)
        axes[1].set_title("one query's candidates and two sets", fontsize="medium")
        draw_kernel(axes[2], view.kernel / view.kernel.max(), list(view.sets.values())[-1])
        axes[2].set_title("their conditional kernel", fontsize="medium")
    return image(figure)
