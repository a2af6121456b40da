"""The figure of a comparison: scores, and for one query its candidates, the sets of two methods and the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ceil_jax.pipeline.encoders import Encoded
from ceil_jax.pipeline.graph import Graph
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.stage import Run
from ceil_jax.pipeline.views import Examples
from ceil_jax.report.compare import Comparison
from ceil_jax.report.page import Figure
from ceil_jax.report.plots import draw_kernel, draw_plane, draw_scores, image, panels
from ceil_jax.tasks.example import Example, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 50
"""Number of candidates of the query that are drawn."""


class _Candidates(NamedTuple):
    """One query's candidates, and the sets that methods choose among them."""

    vector: np.ndarray
    items: np.ndarray
    positions: np.ndarray
    sets: dict[str, list[int]]
    kernels: dict[str, _Kernel]


class _Kernel(NamedTuple):
    """A kernel of the candidates, the places of a set among them, and what is said of both."""

    values: np.ndarray
    chosen: list[int]
    title: str
    caption: str


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
    captions = {
        "plane": f"The candidates for the query “{asked}” ({query.id}) on their two principal axes, "
        f"and the sets of {' and '.join(view.sets)} among them.",
        **{name: one.caption for name, one in view.kernels.items()},
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

    from ceil_jax.dpp.greedy import greedy_map
    from ceil_jax.dpp.kernel import conditional_kernel, relevance, similarity_from_features
    from ceil_jax.retrieval.index import top_k

    first, best = _first_and_last(comparison)
    method = graph.method(best)
    method = method if method.encoder else METHODS["dpp"]
    encoders = graph.used(method)
    assert encoders is not None
    items = run.get(Encoded(encoders, graph.bank_texts(method.encoder), "context"))
    vector = run.get(Encoded(encoders, graph.texts(Examples([query]))))
    _, near = top_k(vector, items, min(_SHOWN, len(graph.bank)), np.array([-1], np.int32))
    chosen = {
        name: [pick.position for pick in run.get(graph.chosen(name, [query]))[0]]
        for name in dict.fromkeys((first, best))
    }
    # examples that a method chose outside the nearest are drawn too
    extra = [p for picks in chosen.values() for p in picks if p not in set(np.asarray(near)[0].tolist())]
    positions = np.concatenate([np.asarray(near)[0], np.array(sorted(set(extra)), np.int32)]).astype(int)
    place = {int(p): i for i, p in enumerate(positions)}
    features = jnp.asarray(items[positions])
    trade_off = run.value(graph.map_trade_off(encoders))
    sets = {METHODS[m].label: [place[p] for p in chosen[m]] for m in dict.fromkeys((first, best))}
    relevant = relevance(jnp.asarray(vector[0]), features)
    label, picked = list(sets.items())[-1]

    def kernel_at(value: float) -> np.ndarray:
        found = np.asarray(conditional_kernel(relevant, similarity_from_features(features), value))
        return found / found.max()

    kernels = {
        "kernel": _Kernel(
            kernel_at(trade_off),
            picked,
            f"their conditional kernel, λ = {trade_off:g}",
            f"The conditional kernel of these candidates at λ = {trade_off:g}, less its diagonal, which is beside "
            f"it; red: the set of {label}.",
        )
    }
    # relevance then counts e-fold at most, so that similarity has a say
    balanced = float(f"{max(float(jnp.ptp(relevant)), 1e-3):.2g}")
    if balanced > 1.5 * trade_off:
        values = kernel_at(balanced)
        items_of = np.asarray(greedy_map(jnp.asarray(values), min(len(picked), len(values))).items)
        kernels["balanced"] = _Kernel(
            values,
            [int(i) for i in items_of if i >= 0],
            f"the same, λ = {balanced:g}",
            f"The same at λ = {balanced:g}, where relevance counts no more than {np.e:.1f}-fold and likeness to what "
            "is chosen already weighs against an example; red: the set that MAP takes then.",
        )
    return _Candidates(vector[0], items[positions], positions, sets, kernels)


def _whole(task: Task, comparison: Comparison, view: _Candidates | None) -> bytes:
    names = () if view is None else ("plane", *view.kernels)
    figure, axes = panels(1 + len(names), 5.3, 4.8, 2 if len(names) > 2 else None)
    draw_scores(axes[0], comparison)
    axes[0].set_title(f"{comparison.task}, {comparison.lm}", fontsize="medium")
    if view is not None:
        for place, name in enumerate(names, 1):
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
        kernel = view.kernels[name]
        draw_kernel(axes, kernel.values, kernel.chosen)
        axes.set_title(kernel.title, fontsize="medium")
