"""Figures that end in a file."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.report.plots import RED, draw_kernel, draw_points, image, panels


def test_no_figure_is_left_open():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_fignums()
    figure, axes = panels(5)
    assert len(axes) == 5 and len(figure.axes) == 8
    assert pyplot.get_fignums() == before


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_figure_drawn_twice_is_the_same_file(kind, magic):
    figure, [axes] = panels(1)
    axes.plot([0, 1], [1, 0])
    first = image(figure, kind)
    assert first.startswith(magic) and b"CreationDate" not in first
    assert image(figure, kind) == first


def test_an_interval_without_width_is_drawn():
    """The ends of the interval of equal scores may lie across their mean by a rounding."""
    score = 100 * (0.1 + 0.2)
    low, high = np.nextafter(score, 100), np.nextafter(score, 0)
    _, [axes] = panels(1)
    draw_points(axes, ["top-k"], [Interval(score, low, high)], [None], "accuracy, %")
    [segment] = axes.collections[0].get_segments()  # the second is the legend's
    np.testing.assert_allclose(segment[:, 0], score)


def test_a_kernels_colours_span_what_lies_off_its_diagonal():
    kernel = np.array([[1.0, 0.3, 0.2], [0.3, 0.9, 0.25], [0.2, 0.25, 0.8]])
    figure, [axes] = panels(1)
    draw_kernel(axes, kernel, [0, 2])
    [shown] = axes.images
    assert (shown.norm.vmin, shown.norm.vmax) == (0.2, 0.3)
    assert np.ma.getmaskarray(shown.get_array()).tolist() == np.eye(3, dtype=bool).tolist()
    [beside] = axes.child_axes
    assert [bar.get_width() for bar in beside.patches] == [1.0, 0.9, 0.8]
    red = [bar.get_facecolor() == to_rgba(RED) for bar in beside.patches]
    assert red == [True, False, True]
    # far apart: a logarithmic scale
    _, [other] = panels(1)
    draw_kernel(other, kernel * np.array([[1], [1e-3], [1e-3]]), [1])
    assert type(other.images[0].norm).__name__ == "LogNorm"
    image(figure)
