"""Figures that several experiments share."""

from drawing import draw_lines

from ceil_jax.report.plots import panels


def test_a_series_looks_the_same_in_every_panel():
    _, (left, right) = panels(2)
    point = [(1.0, 2.0, 1.0, 3.0)]
    names = ("top-k", "EPR", "CEIL")
    draw_lines(left, dict.fromkeys(names, point), "x", "y", names=names)
    draw_lines(right, {"CEIL": point}, "x", "y", names=names)
    [ours] = [drawn for drawn in left.lines if drawn.get_label() == "CEIL"]
    [alone] = right.lines
    assert (ours.get_color(), ours.get_marker()) == (alone.get_color(), alone.get_marker())
