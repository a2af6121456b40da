"""Drawing functions for figures, in Okabe and Ito's palette, which colour-blind readers can tell apart."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ceil_jax.report.compare import Comparison

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"


def panels(
    count: int, width: float = 5.0, height: float = 4.4, columns: int | None = None
) -> tuple[Figure, list[Axes]]:
    """Return a figure of panels side by side, and their axes. The figure is not registered with pyplot.

    Args:
        count: number of panels.
        width: width of a panel in inches.
        height: height of a panel in inches.
        columns: panels per line; by default up to four.
    """
    from matplotlib.figure import Figure

    columns = columns or min(count, 4)
    lines = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * lines), layout="constrained")
    axes = list(figure.subplots(lines, columns, squeeze=False).ravel())
    for spare in axes[count:]:
        spare.axis("off")
    return figure, axes[:count]


def image(figure: Figure, kind: str = "png") -> bytes:
    """Return a figure as the bytes of a PNG or PDF file, without the date, so that equal figures are equal files.

    Args:
        figure: what to save.
        kind: "png" or "pdf".
    """
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=130, metadata={"CreationDate": None} if kind == "pdf" else None)
    return out.getvalue()


def draw_scores(axes: Axes, comparison: Comparison) -> None:
    """Draw each method's metric with its interval, the first method on top."""
    labels = [row.label for row in comparison.rows]
    xlabel = f"{comparison.metric}, % (n = {comparison.queries})"
    draw_points(axes, labels, [row.interval for row in comparison.rows], [None] * len(labels), xlabel)


def draw_plane(
    axes: Axes, query: np.ndarray, items: np.ndarray, labels: Sequence[str], sets: Mapping[str, Sequence[int]]
) -> None:
    """Draw a query's candidates on their two principal axes, and the sets that methods choose.

    Args:
        axes: the panel.
        query: float [D], drawn as a star.
        items: float [n, D].
        labels: the output of each item, which sets its marker, and its colour if there are at most eight outputs.
        sets: method → indices of the items it chose, which stand in a circle or a square.
    """
    centre = items.mean(axis=0)
    _, _, axes_of_items = np.linalg.svd(items - centre, full_matrices=False)
    plane = (items - centre) @ axes_of_items[:2].T
    star = (query - centre) @ axes_of_items[:2].T
    names = sorted(set(labels))
    if 1 < len(names) <= len(COLOURS):
        for name, colour, marker in zip(names, COLOURS, MARKERS, strict=False):
            here = np.array([label == name for label in labels])
            axes.scatter(plane[here, 0], plane[here, 1], s=26, marker=marker, color=colour, label=name)
    else:
        axes.scatter(plane[:, 0], plane[:, 1], s=14, color=GREY)
    ink = axes.xaxis.label.get_color()
    for (name, places), ring, size in zip(sets.items(), "osD", (110, 260, 480), strict=False):
        at = plane[list(places)]
        axes.scatter(
            at[:, 0],
            at[:, 1],
            s=size,
            marker=ring,
            facecolors="none",
            edgecolors=ink,
            linewidths=1.4,
            label=f"set: {name}",
        )
    axes.scatter(star[0], star[1], marker="*", s=220, color=RED, edgecolors=ink, label="the query")
    axes.set_xlabel("first principal axis of the candidates")
    axes.set_ylabel("second principal axis")
    # beside the points, so that it hides none of them
    axes.legend(
        fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5), labelspacing=1.1, frameon=False
    )


def draw_kernel(axes: Axes, kernel: np.ndarray, chosen: Sequence[int]) -> None:
    """Draw a conditional kernel as a heat map, with its diagonal beside it and the chosen items in red in both.

    The colours span the values off the diagonal, on a logarithmic scale where these differ more than tenfold.

    Args:
        axes: the panel.
        kernel: float [n, n], items ordered by relevance.
        chosen: indices of the chosen items.
    """
    from matplotlib.colors import LogNorm, Normalize

    diagonal = np.eye(len(kernel), dtype=bool)
    off = kernel[~diagonal] if len(kernel) > 1 else kernel.ravel()
    low, high = float(off.min()), float(off.max())
    norm = LogNorm(low, high) if 0 < 10 * low < high else Normalize(low, high)
    ink, places = axes.xaxis.label.get_color(), np.asarray(chosen, int)
    shown = axes.imshow(
        np.ma.masked_array(kernel, diagonal), cmap="cividis", interpolation="nearest", norm=norm
    )
    for place in places:
        axes.axhline(place, color=RED, linewidth=0.9, alpha=0.7)
        axes.axvline(place, color=RED, linewidth=0.9, alpha=0.7)
    axes.scatter(places, places, marker="s", s=22, color=RED, edgecolors=ink, linewidths=0.6, zorder=3)
    axes.set_xlabel("candidate, most relevant first; red: chosen")
    axes.set_ylabel("candidate")
    beside = axes.inset_axes((1.04, 0.0, 0.2, 1.0), sharey=axes)
    values = np.diag(kernel)
    beside.barh(
        np.arange(len(values)), values, 0.9, color=[RED if i in places else GREY for i in range(len(values))]
    )
    if values.max() > 10 * values.min() > 0:
        beside.set_xscale("log")
    beside.tick_params(axis="y", labelleft=False)
    beside.tick_params(axis="x", labelsize="x-small")
    beside.set_title("L'ᵢᵢ", fontsize="small")
    bar = axes.figure.colorbar(shown, ax=axes)
    bar.set_label("L'ᵢⱼ, i ≠ j")


PALETTE = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"
COLOURS = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", "#B8860B", GREY, "#8C6BB1")
"""Colours of labels, visible on white and on black; the query's colour is not among them."""


def draw_points(
    axes: Axes,
    labels: Sequence[str],
    values: Sequence[tuple[float, float, float]],
    papers: Sequence[float | None],
    xlabel: str,
) -> None:
    """Draw values with their intervals, the first on top, and the paper's numbers as open diamonds.

    Args:
        axes: the panel.
        labels: a label for each value.
        values: (value, low, high).
        papers: the paper's number beside each value, or None.
        xlabel: the label of the horizontal axis.
    """
    for place, (value, paper) in enumerate(zip(values[::-1], papers[::-1], strict=True)):
        mean, low, high = value
        # rounding may put the ends of an empty interval on the wrong side
        bars = [[max(0.0, mean - low)], [max(0.0, high - mean)]]
        axes.errorbar(mean, place, xerr=bars, fmt="o", color=BLUE, capsize=3)
        axes.annotate(f"{mean:.1f}", (mean, place), (0, 5), textcoords="offset points", ha="center")
        if paper is not None:
            axes.plot(paper, place, "D", markerfacecolor="none", color=ORANGE)
    handles: list[Any] = [axes.errorbar([], [], xerr=[], fmt="o", color=BLUE, capsize=3)]
    names = ["measured, 95 % bootstrap interval"]
    if any(paper is not None for paper in papers):
        handles += axes.plot([], [], "D", markerfacecolor="none", color=ORANGE)
        names.append("the paper's LM and data")
    axes.legend(handles, names, fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    axes.set_yticks(range(len(labels)), list(labels)[::-1])
    axes.set_ylim(-0.6, len(labels) - 0.2)
    axes.set_xlabel(xlabel)
    axes.grid(axis="x", alpha=0.3)
