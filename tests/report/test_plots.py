"""Figures that end in a file."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from ceil_jax.methods.registry import ROWS
from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.pipeline.config import SCALES
from ceil_jax.report.plots import draw_points, picture


def test_a_picture_drawn_twice_is_the_same_file_and_leaves_no_figure_open():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_fignums()
    first = picture(lambda axes: axes.plot([0, 1], [1, 0]), 2, 2)
    assert first[0] != first[1]
    assert all(file.startswith(b"\x89PNG") for file in first)
    assert picture(lambda axes: axes.plot([0, 1], [1, 0]), 2, 2) == first
    assert pyplot.get_fignums() == before


def test_an_interval_without_width_is_drawn():
    """The ends of the interval of equal scores may lie across their mean by a rounding."""
    score = 100 * (0.1 + 0.2)
    low = np.nextafter(score, 100)
    high = np.nextafter(score, 0)
    axes = Figure().subplots()
    draw_points(axes, ["top-k"], [Interval(score, low, high)], [None], "accuracy, %")
    [segment] = axes.collections[0].get_segments()  # the second is the legend's
    np.testing.assert_allclose(segment[:, 0], score)


def test_the_longest_labels_leave_room_for_the_picture_and_the_legend_is_whole():
    labels = [SCALES["small"].row(name).label for name in ROWS]
    assert max(map(len, labels)) <= 40
    figure = Figure(figsize=(6.4, 0.45 * len(labels) + 1.4), layout="constrained")
    axes = figure.subplots()
    values = [Interval(50.0, 40.0, 60.0)] * len(labels)
    draw_points(axes, labels, values, [45.0] * len(labels), "accuracy, %")
    figure.draw_without_rendering()
    assert axes.get_position().width > 0.5
    legend = axes.get_legend().get_window_extent()
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.x1
    assert legend.y0 >= 0
