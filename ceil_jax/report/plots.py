"""The drawing of figures with matplotlib.

Their palette is that of Okabe and Ito, whose colours colour-blind readers can tell apart.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ceil_jax.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
RED = "#D55E00"
GREY = "#999999"
PALETTE = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"


def picture(draw: Callable[[Axes], None], width: float, height: float) -> tuple[bytes, bytes]:
    """Return a drawing as two PNG files, for light and for dark pages.

    Its width and height are in inches.
    """
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UserError("matplotlib is not installed; pip install 'ceil-jax[plots]'") from None

    files = []
    for style in ("default", "dark_background"):
        with matplotlib.style.context(style):
            figure = Figure(figsize=(width, height), layout="constrained")
            draw(figure.subplots())
            file = io.BytesIO()
            figure.savefig(file, format="png", dpi=160)
            files.append(file.getvalue())
    return files[0], files[1]


def draw_points(
    axes: Axes,
    labels: Sequence[str],
    values: Sequence[tuple[float, float, float]],
    papers: Sequence[float | None],
    xlabel: str,
) -> None:
    """Draw values with their intervals, one labelled line each.

    The first one is on top. The paper's numbers are open diamonds.

    Args:
        axes: the axes to draw into.
        labels: a label for each value.
        values: (value, low, high) of each.
        papers: the paper's number of each; None where it has none.
        xlabel: the label of the horizontal axis.
    """
    from matplotlib.transforms import ScaledTranslation

    for height, ((mean, low, high), paper) in enumerate(
        zip(values[::-1], papers[::-1], strict=True)
    ):
        # rounding may put the ends of an empty interval on the wrong side
        bars = [[max(0.0, mean - low)], [max(0.0, high - mean)]]
        axes.errorbar(mean, height, xerr=bars, fmt="o", color=BLUE, capsize=3)
        axes.annotate(
            f"{mean:.1f}", (mean, height), (0, 5), textcoords="offset points", ha="center"
        )
        if paper is not None:
            axes.plot(paper, height, "D", markerfacecolor="none", color=ORANGE)
    handles: list[Any] = [axes.errorbar([], [], xerr=[], fmt="o", color=BLUE, capsize=3)]
    names = ["measured, 95 % bootstrap interval"]
    if any(paper is not None for paper in papers):
        handles += axes.plot([], [], "D", markerfacecolor="none", color=ORANGE)
        names.append("the paper's LM and data")
    # equally far below the axis in low and in high panels; in one column, so that no text is cut
    below = axes.transAxes + ScaledTranslation(0, -0.44, axes.figure.dpi_scale_trans)
    anchor: dict[str, Any] = {
        "loc": "upper center",
        "bbox_to_anchor": (0.5, 0),
        "bbox_transform": below,
    }
    axes.legend(handles, names, fontsize="small", frameon=False, **anchor)
    axes.set_yticks(range(len(labels)), list(labels)[::-1])
    axes.set_ylim(-0.6, len(labels) - 0.2)
    axes.set_xlabel(xlabel)
    axes.grid(axis="x", alpha=0.3)
