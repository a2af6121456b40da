"""The figure of a comparison: scores, and for one query its candidates, the sets of two methods and the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.run import Run
from ceil_jax.report.compare import Comparison
from ceil_jax.report.page import Figure
from ceil_jax.report.plots import draw_kernel, draw_plane, draw_scores, image, panels
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.tasks.example import Example

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DECADES = 6
"""Powers of ten below the largest value in the drawing of the kernel."""

_SHOWN = 50
"""Number of candidates of the query that are drawn."""


class _Candidates(NamedTuple):
    """One query's candidates, and the sets that methods choose among them."""

    vector: np.ndarray
    items: np.ndarray
    positions: np.ndarray
    kernel: np.ndarray
    sets: dict[str, list[int]]


class CloseUp(NamedTuple):
    """The pictures of a comparison as PNG files."""

    whole: bytes
    """All panels side by side, the scores included."""
    parts: tuple[Figure, ...]
    """The panels of the query, each by itself; none if no method compares vectors."""


def closeup(pipeline: Run, comparison: Comparison) -> CloseUp:
    """Return the pictures of the scores and, if a method uses an encoder, of a query on which two methods differ.

    Args:
        pipeline: the run behind the comparison.
        comparison: its scores.
    """
    if not any(pipeline.method(method).encoder for method in comparison.evaluations):
        return CloseUp(_whole(pipeline, comparison, None), ())
    query = pipeline.task.validation[_telling_query(comparison)]
    view = _view(pipeline, comparison, query)
    asked = query.input if len(query.input) <= 200 else f"{query.input[:199]}…"
    chosen = list(view.sets)[-1]
    captions = {
        "plane": f"The candidates for the query “{asked}” ({query.id}) on their two principal axes, "
        f"and the sets of {' and '.join(view.sets)} among them.",
        "kernel": f"The conditional kernel of these candidates, on a logarithmic scale; red: the set of {chosen}.",
    }
    pictures = [
        Figure(caption, _panel(pipeline, view, name), _panel(pipeline, view, name, dark=True))
        for name, caption in captions.items()
    ]
    return CloseUp(_whole(pipeline, comparison, view), tuple(pictures))


def _first_and_last(comparison: Comparison) -> tuple[str, str]:
    """Return the two methods whose sets are drawn: the last of the table, and the first that chooses the nearest
    examples, or else by MAP."""
    methods = [row.method for row in comparison.rows]
    nearest = [name for name in methods if METHODS[name].needs.ends_in_nearest]
    mapped = [name for name in methods if METHODS[name].needs.ends_in_map]
    return [*nearest, *mapped, methods[-1]][0], methods[-1]


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
    method = pipeline.used(best)
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
    trade_off = pipeline.trade_off_of(method if method.encoder else method._replace(encoder="base"))
    kernel = np.asarray(
        conditional_kernel(
            relevance(jnp.asarray(vector[0]), features), similarity_from_features(features), trade_off
        )
    )
    sets = {METHODS[m].label: [place[p] for p in chosen[m]] for m in dict.fromkeys((first, best))}
    return _Candidates(vector[0], items[positions], positions, kernel, sets)


def _whole(pipeline: Run, comparison: Comparison, view: _Candidates | None) -> bytes:
    figure, axes = panels(1 if view is None else 3, 5.3, 4.8)
    draw_scores(axes[0], comparison)
    axes[0].set_title(f"{comparison.task}, {comparison.lm}", fontsize="medium")
    if view is not None:
        for place, name in enumerate(("plane", "kernel"), 1):
            _draw(axes[place], pipeline, view, name)
    return image(figure)


def _panel(pipeline: Run, view: _Candidates, name: str, *, dark: bool = False) -> bytes:
    """Return one panel, so small that its text can be read on a telephone."""
    import matplotlib.style

    with matplotlib.style.context("dark_background" if dark else "default"):
        figure, axes = panels(1, 5.0, 3.9)
        _draw(axes[0], pipeline, view, name)
        return image(figure)


def _draw(axes: Axes, pipeline: Run, view: _Candidates, name: str) -> None:
    if name == "plane":
        labels = [pipeline.task.train[p].output for p in view.positions]
        draw_plane(axes, view.vector, view.items, labels, view.sets)
        axes.set_title("one query's candidates and two sets", fontsize="medium")
    else:
        draw_kernel(axes, view.kernel / view.kernel.max(), list(view.sets.values())[-1], decades=_DECADES)
        axes.set_title("their conditional kernel", fontsize="medium")
