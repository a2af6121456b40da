"""Figures of several panels, and the files that they are written to."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from ceil_jax.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def panels(
    count: int, width: float = 5.0, height: float = 4.4, columns: int | None = None
) -> tuple[Figure, list[Axes]]:
    """Return a figure of panels side by side, and their axes. The figure is not registered with
    pyplot.

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
    """Return a figure as the bytes of a PNG or PDF file, without the date, so that equal figures
    are equal files."""
    out = io.BytesIO()
    figure.savefig(
        out, format=kind, dpi=130, metadata={"CreationDate": None} if kind == "pdf" else None
    )
    return out.getvalue()
