"""The figure of a comparison: scores, and for one query its candidates, the sets of two methods and the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ceil_jax.pipeline.encoders import Encoded
from ceil_jax.pipeline.evaluate import choose
from ceil_jax.pipeline.graph import Graph
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.stage import Run, Stage
from ceil_jax.pipeline.views import Rows
from ceil_jax.report.compare import Comparison
from ceil_jax.report.page import Figure
from ceil_jax.report.plots import draw_kernel, draw_plane, draw_scores, image, panels
from ceil_jax.tasks.example import Example, Task

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


def closeup(run: Run, graph: Graph, comparison: Comparison) -> CloseUp:
    """Return the pictures of the scores and, if a method uses an encoder, of a query on which two methods differ.

    Args:
        run: has evaluated the methods.
        graph: the task and the settings.
        comparison: the scores.
    """
    task = graph.task
    if not any(graph.method(method).encoder for method in comparison.evaluations):
        return CloseUp(_whole(task, comparison, None), ())
    query = task.validation[_telling_query(comparison)]
    view = _view(run, graph, comparison, query)
    asked = query.input if len(query.input) <= 200 else f"{query.input[:199]}…"
    chosen = list(view.sets)[-1]
    captions = {
        "plane": f"The candidates for the query “{asked}” ({query.id}) on their two principal axes, "
        f"and the sets of {' and '.join(view.sets)} among them.",
        "kernel": f"The conditional kernel of these candidates, on a logarithmic scale; red: the set of {chosen}.",
    }
    pictures = [
        Figure(caption, _panel(task, view, name), _panel(task, view, name, dark=True))
        for name, caption in captions.items()
    ]
    return CloseUp(_whole(task, comparison, view), tuple(pictures))


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
    return int(
        np.argmax(
            comparison.evaluations[last].measured.scores > comparison.evaluations[first].measured.scores
        )
    )


def _view(run: Run, graph: Graph, comparison: Comparison, query: Example) -> _Candidates:
    """Return the query's nearest examples, their kernel, and the sets of two methods among them."""
    import jax.numpy as jnp

    from ceil_jax.dpp.kernel import conditional_kernel, relevance, similarity_from_features
    from ceil_jax.retrieval.index import top_k

    first, best = _first_and_last(comparison)
    method = graph.method(best)
    method = method if method.encoder else METHODS["dpp"]
    encoders, rows = graph.used(method), Rows([query])
    items = run.get(Encoded(encoders, graph.view_of(method.encoder), "context"))
    vector = run.get(Encoded(encoders, graph.seen(rows)))
    _, near = top_k(vector, items, min(_SHOWN, len(graph.bank)), np.array([-1], np.int32))
    chosen = {
        name: [pick.position for pick in choose(run, graph, name, [query])[0]]
        for name in dict.fromkeys((first, best))
    }
    # examples that a method chose outside the nearest are drawn too
    extra = [p for picks in chosen.values() for p in picks if p not in set(np.asarray(near)[0].tolist())]
    positions = np.concatenate([np.asarray(near)[0], np.array(sorted(set(extra)), np.int32)]).astype(int)
    place = {int(p): i for i, p in enumerate(positions)}
    features = jnp.asarray(items[positions])
    found = graph.trade_off_of(method._replace(retriever="dpp"))
    trade_off = run.get(found) if isinstance(found, Stage) else found
    assert trade_off is not None
    kernel = np.asarray(
        conditional_kernel(
            relevance(jnp.asarray(vector[0]), features), similarity_from_features(features), trade_off
        )
    )
    sets = {METHODS[m].label: [place[p] for p in chosen[m]] for m in dict.fromkeys((first, best))}
    return _Candidates(vector[0], items[positions], positions, kernel, sets)


def _whole(task: Task, comparison: Comparison, view: _Candidates | None) -> bytes:
    figure, axes = panels(1 if view is None else 3, 5.3, 4.8)
    draw_scores(axes[0], comparison)
    axes[0].set_title(f"{comparison.task}, {comparison.lm}", fontsize="medium")
    if view is not None:
        for place, name in enumerate(("plane", "kernel"), 1):
            _draw(axes[place], task, view, name)
    return image(figure)


def _panel(task: Task, view: _Candidates, name: str, *, dark: bool = False) -> bytes:
    """Return one panel, so small that its text can be read on a telephone."""
    import matplotlib.style

    with matplotlib.style.context("dark_background" if dark else "default"):
        figure, axes = panels(1, 5.0, 3.9)
        _draw(axes[0], task, view, name)
        return image(figure)


def _draw(axes: Axes, task: Task, view: _Candidates, name: str) -> None:
    if name == "plane":
        labels = [task.train[p].output for p in view.positions]
        draw_plane(axes, view.vector, view.items, labels, view.sets)
        axes.set_title("one query's candidates and two sets", fontsize="medium")
    else:
        draw_kernel(axes, view.kernel / view.kernel.max(), list(view.sets.values())[-1], decades=_DECADES)
        axes.set_title("their conditional kernel", fontsize="medium")
