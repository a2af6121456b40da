"""Drawing functions for figures, in Okabe and Ito's palette, which colour-blind readers can tell apart."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ceil_jax.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"
PALETTE = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"


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
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UserError("matplotlib is not installed; pip install 'ceil-jax[plots]'") from None

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


def picture(draw: Callable[[Axes], None], width: float, height: float) -> tuple[bytes, bytes]:
    """Return a panel of so many inches as two PNG files, for light and for dark pages."""
    import matplotlib.style

    found = []
    for style in ("default", "dark_background"):
        with matplotlib.style.context(style):
            figure, [axes] = panels(1, width, height)
            draw(axes)
            found.append(image(figure))
    return found[0], found[1]


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
    from matplotlib.transforms import ScaledTranslation

    for place, ((mean, low, high), paper) in enumerate(zip(values[::-1], papers[::-1], strict=True)):
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
    # as far below the axis in a low panel as in a high one
    below = axes.transAxes + ScaledTranslation(0, -0.44, axes.figure.dpi_scale_trans)
    axes.legend(
        handles,
        names,
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=below,
        fontsize="x-small",
        ncols=2,
    )
    axes.set_yticks(range(len(labels)), list(labels)[::-1])
    axes.set_ylim(-0.6, len(labels) - 0.2)
    axes.set_xlabel(xlabel)
    axes.grid(axis="x", alpha=0.3)
