"""Figures that end in a file."""

import numpy as np
import pytest

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.report.plots import draw_points, image, panels


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
