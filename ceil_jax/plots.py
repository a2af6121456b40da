"""Figures: what people would rather look at than read. Colours are Okabe and Ito's, safe for the colour-blind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ceil_jax.compare import Comparison

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"


def draw_scores(axes: Axes, comparison: Comparison) -> None:
    """Each method's metric with its interval, the first method on top."""
    rows = comparison.rows[::-1]
    for place, row in enumerate(rows):
        below, above = row.value - row.interval.low, row.interval.high - row.value
        colour = ORANGE if row.method.startswith("ceil") else BLUE
        axes.errorbar(row.value, place, xerr=[[below], [above]], fmt="o", color=colour, capsize=3)
        axes.annotate(f"{row.value:.1f}", (row.value, place), (0, 6), textcoords="offset points", ha="center")
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.3)
    axes.set_xlabel(f"{comparison.metric}, % (n = {comparison.queries}, 95 % bootstrap interval)")
    axes.grid(axis="x", alpha=0.3)


def draw_plane(
    axes: Axes, query: np.ndarray, items: np.ndarray, labels: Sequence[str], sets: dict[str, Sequence[int]]
) -> None:
    """A query's candidates on their two principal axes, and the sets that methods choose.

    Args:
        query: float [D], drawn as a star.
        items: float [n, D].
        labels: the answer of each item, which gives its shade of grey.
        sets: method → places among the items, ringed.
    """
    centre = items.mean(axis=0)
    _, _, axes_of_items = np.linalg.svd(items - centre, full_matrices=False)
    plane = (items - centre) @ axes_of_items[:2].T
    star = (query - centre) @ axes_of_items[:2].T
    names = sorted(set(labels))
    if 1 < len(names) <= 6:
        shades = np.linspace(0.2, 0.85, len(names))
        for name, shade in zip(names, shades, strict=True):
            here = np.array([label == name for label in labels])
            axes.scatter(*plane[here].T, s=14, color=str(shade), label=name)
    else:
        axes.scatter(*plane.T, s=14, color=GREY)
    for (name, places), colour, size in zip(
        sets.items(), (BLUE, ORANGE, GREEN), (70, 150, 240), strict=False
    ):
        axes.scatter(
            *plane[list(places)].T, s=size, facecolors="none", edgecolors=colour, linewidths=1.6, label=name
        )
    axes.scatter(*star, marker="*", s=160, color=RED, label="query")
    axes.set_xlabel("first principal axis of the candidates")
    axes.set_ylabel("second principal axis")
    axes.legend(fontsize="x-small", loc="best")


def draw_kernel(axes: Axes, kernel: np.ndarray, chosen: Sequence[int]) -> None:
    """A conditional kernel as a heat map, items by relevance; chosen ones are marked on the diagonal."""
    image = axes.imshow(kernel, cmap="cividis", interpolation="nearest")
    axes.figure.colorbar(image, ax=axes, label="L'ᵢⱼ / max L'")
    axes.scatter(chosen, chosen, marker="s", s=18, facecolors="none", edgecolors=RED, label="chosen by MAP")
    axes.legend(fontsize="x-small", loc="upper right")
    axes.set_xlabel("candidate, most relevant first")
    axes.set_ylabel("candidate")
