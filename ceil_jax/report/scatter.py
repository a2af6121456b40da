"""A chart of scores against tokens as inline SVG, whose texts can be selected and are read by
screen readers."""

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
"""The size of the chart, and its margins for the axes."""

_LINE = 14
"""The least distance between two labels."""


class Point(NamedTuple):
    """A point of the chart."""

    label: str
    """Its label; "" for a point in the background."""
    tokens: float
    score: float
    low: float
    high: float
    best: bool = False
    """Whether it is recommended."""


def scatter(points: Sequence[Point], xlabel: str, ylabel: str, title: str) -> str:
    """Return an SVG element of 400 × 300 units that fills the width it has on a page.

    Points with a label have a line for their interval; those without are small and grey.

    Args:
        points: at least one point.
        xlabel: the name of the x axis.
        ylabel: the name of the y axis.
        title: what the chart shows, for screen readers.
    """
    labelled = [point for point in points if point.label]
    frame = _frame_of(points, labelled or points)
    parts = [
        *_axes(frame, xlabel, ylabel),
        *(_background(point, frame) for point in points if not point.label),
    ]
    heights = _apart([frame.y(point.score) for point in labelled])
    for point, height in zip(labelled, heights, strict=True):
        parts.append(_labelled(point, frame, height))
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
        """Return the place of a number of tokens, from the left."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * tokens / self.largest

    def y(self, score: float) -> float:
        """Return the place of a score, from above. Scores outside of the frame lie on its edge."""
        span = max(1.0, self.ceiling - self.floor)
        inside = min(max(score, self.floor), self.ceiling)
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (inside - self.floor) / span)


def _frame_of(points: Sequence[Point], important: Sequence[Point]) -> _Frame:
    """The frame for some points, as high as the intervals of the important ones."""
    return _Frame(
        largest=max(1.0, *(point.tokens for point in points)) * 1.05,
        floor=max(0.0, min(point.low for point in important) - 3),
        ceiling=min(100.0, max(point.high for point in important) + 3),
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
    """A small dot."""
    x = frame.x(point.tokens)
    y = frame.y(point.score)
    return f'<circle class="raced" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>'


def _labelled(point: Point, frame: _Frame, height: float) -> str:
    """A dot with the line of its interval, and its label at a height that no other label has."""
    kind = "best" if point.best else "final"
    x = frame.x(point.tokens)
    y = frame.y(point.score)
    # in the right half, the label stands to the left of the dot, so that it does not leave the chart
    label_x, anchor = (x - 9, "end") if x > _WIDTH * 0.55 else (x + 9, "start")
    return (
        f'<g class="{kind}"><line x1="{x:.1f}" x2="{x:.1f}" y1="{frame.y(point.low):.1f}" '
        f'y2="{frame.y(point.high):.1f}"/><circle cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
        f'<text x="{label_x:.1f}" y="{height + 4:.1f}" '
        f'text-anchor="{anchor}">{html.escape(point.label)}</text></g>'
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


def _apart(heights: Sequence[float]) -> list[float]:
    """The heights of labels, those that would cover another one moved down."""
    moved = list(heights)
    free = 0.0
    for i in sorted(range(len(heights)), key=lambda i: heights[i]):
        moved[i] = max(heights[i], free)
        free = moved[i] + _LINE
    return moved
