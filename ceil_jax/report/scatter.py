"""A chart of scores against tokens as inline SVG.

Its texts can be selected, and are read by screen readers.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

_WIDTH = 400
_HEIGHT = 300
_LEFT = 40
_RIGHT = 14
_TOP = 14
_BOTTOM = 44
"""The size of the chart, and its margins around the axes."""

_LINE = 14
"""The height of a label's line."""
_LETTER = 6.6
"""The approximate width of a letter in a label."""


class Point(NamedTuple):
    """A point of the chart."""

    label: str
    """The point's label; "" for a point in the background."""
    tokens: float
    score: float
    low: float
    high: float
    best: bool = False
    """Whether the point is the recommended one."""


def scatter(points: Sequence[Point], xlabel: str, ylabel: str, title: str) -> str:
    """Return an SVG element of 400 × 300 units that fills the width it has on a page.

    Points with a label have a line for their interval; those without are small and grey. A labelled
    point far below the others is a triangle on the lower edge with its score, because the chart
    would be an empty band otherwise.

    Args:
        points: at least one point.
        xlabel: the name of the x axis.
        ylabel: the name of the y axis.
        title: what the chart shows, for screen readers.
    """
    labelled = [point for point in points if point.label]
    raced = [point for point in points if not point.label]
    frame = _frame_of(points, labelled or points)
    parts = [*_axes(frame, xlabel, ylabel), *(_background(point, frame) for point in raced)]
    for point, label in zip(labelled, _labels(labelled, raced, frame), strict=True):
        parts.append(_labelled(point, frame, label))
    description = "; ".join(map(_in_words, labelled))
    return (
        f'<svg class="scatter" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{html.escape(title)}</title><desc>{html.escape(description)}</desc>{''.join(parts)}</svg>"
    )


class _Frame(NamedTuple):
    """The numbers that the axes show, and where they lie in the chart."""

    largest: float
    """The tokens at the right end; at the left end there are none."""
    floor: float
    ceiling: float
    """The scores at the lower and the upper end."""

    def x(self, tokens: float) -> float:
        """Return the x-coordinate of a point with this many tokens."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * tokens / self.largest

    def y(self, score: float) -> float:
        """Return the y-coordinate of a score. Scores outside of the frame lie on its edge."""
        span = max(1.0, self.ceiling - self.floor)
        inside = min(max(score, self.floor), self.ceiling)
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (inside - self.floor) / span)


def _frame_of(points: Sequence[Point], important: Sequence[Point]) -> _Frame:
    """The frame for some points, as high as the intervals of the important ones.

    Those are left out that lie below the others by more than the height of these.
    """
    lowest, *others = sorted(important, key=lambda point: point.score)
    while others:
        bottom = min(point.low for point in others)
        height = max(point.high for point in others) - bottom
        if bottom - lowest.score <= height or lowest.high >= bottom:
            break
        lowest, *others = others
    shown = [lowest, *others]
    return _Frame(
        largest=max(1.0, *(point.tokens for point in points)) * 1.05,
        floor=max(0.0, min(point.low for point in shown) - 3),
        ceiling=min(100.0, max(point.high for point in shown) + 3),
    )


def _axes(frame: _Frame, xlabel: str, ylabel: str) -> list[str]:
    """The lines and numbers of the axes, and their names."""
    parts = []
    for tick in _ticks(frame.floor, frame.ceiling):
        y = frame.y(tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" '
            f'y2="{y:.1f}"/><text x="{_LEFT - 6}" y="{y + 4:.1f}" '
            f'text-anchor="end">{tick:g}</text>'
        )
    for tick in _ticks(0, frame.largest):
        parts.append(
            f'<text x="{frame.x(tick):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">'
            f"{tick:,.0f}</text>"
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{html.escape(xlabel)}</text>'
        f'<text transform="translate(11 {(_TOP + _HEIGHT - _BOTTOM) / 2}) rotate(-90)" '
        f'text-anchor="middle">{html.escape(ylabel)}</text>'
    )
    return parts


def _background(point: Point, frame: _Frame) -> str:
    """Return a small dot for a point in the background."""
    x = frame.x(point.tokens)
    y = frame.y(point.score)
    return f'<circle class="raced" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>'


class _Box(NamedTuple):
    """A rectangle of the chart."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: _Box) -> bool:
        """Return whether two rectangles overlap."""
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)


class _Label(NamedTuple):
    """The text of a label and where it is."""

    text: str
    x: float
    y: float
    anchor: str

    @property
    def box(self) -> _Box:
        """The rectangle that the text covers."""
        width = _LETTER * len(self.text)
        left = self.x if self.anchor == "start" else self.x - width
        return _Box(left, self.y - _LINE / 2, left + width, self.y + _LINE / 2)


def _labels(points: Sequence[Point], raced: Sequence[Point], frame: _Frame) -> list[_Label]:
    """The label of each point, to the right or the left of it at a height where it covers least: no
    label and no point with a label, if there is room, and few small points and lines."""
    weights = [(_dot(point, frame, 6), 20.0) for point in points]
    weights += [(_dot(point, frame, 3), 1.5) for point in raced]
    for point in points:
        x = frame.x(point.tokens)
        weights.append((_Box(x - 1, frame.y(point.high), x + 1, frame.y(point.low)), 1.5))
    labels: dict[Point, _Label] = {}
    for point in sorted(points, key=lambda point: not point.best):
        text = point.label if point.score >= frame.floor else f"{point.label}: {point.score:.1f}"
        x, y = frame.x(point.tokens), frame.y(point.score)
        places = [
            _Label(text, x + side * 9, y + lines * _LINE / 2, anchor)
            for lines in (0, -1, 1, -2, 2, -3, 3, -4, 4, -6, 6, -8, 8)
            for side, anchor in ((1, "start"), (-1, "end"))
        ]

        def cost(label: _Label, y: float = y) -> float:
            box = label.box
            covered = sum(weight for other, weight in weights if box.covers(other))
            outside = box.left < _LEFT + 2 or box.right > _WIDTH or box.top < 0
            outside = outside or box.bottom > _HEIGHT - _BOTTOM + 4
            return covered + 1000 * outside + abs(label.y - y) / _LINE

        labels[point] = min(places, key=cost)
        weights.append((labels[point].box, 100))
    return [labels[point] for point in points]


def _dot(point: Point, frame: _Frame, radius: float) -> _Box:
    x, y = frame.x(point.tokens), frame.y(point.score)
    return _Box(x - radius, y - radius, x + radius, y + radius)


def _labelled(point: Point, frame: _Frame, label: _Label) -> str:
    """A dot with the line of its interval, or a triangle on the lower edge, and its label."""
    kind = "best" if point.best else "final"
    x = frame.x(point.tokens)
    y = frame.y(point.score)
    mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    if point.score < frame.floor:
        mark = f'<path d="M{x - 6:.1f} {y - 9:.1f}h12l-6 9z"/>'
    return (
        f'<g class="{kind}"><line x1="{x:.1f}" x2="{x:.1f}" y1="{frame.y(point.low):.1f}" '
        f'y2="{frame.y(point.high):.1f}"/>{mark}'
        f'<text x="{label.x:.1f}" y="{label.y + 4:.1f}" '
        f'text-anchor="{label.anchor}">{html.escape(label.text)}</text></g>'
    )


def _in_words(point: Point) -> str:
    return (
        f"{point.label} {point.score:.1f} ({point.low:.1f} to {point.high:.1f}) with "
        f"{point.tokens:,.0f} tokens"
    )


def _ticks(low: float, high: float) -> list[float]:
    """Four to six round numbers in a range."""
    # 0.1, 0.2, 0.5, 1, 2, 5, …
    steps = [10.0**power * digit for power in range(-1, 7) for digit in (1, 2, 5)]
    step = next(step for step in steps if (high - low) / step <= 6)
    lowest = -(-low // step)  # low / step, rounded up
    return [step * (lowest + i) for i in range(7) if step * (lowest + i) <= high]
