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
    largest = max(1.0, *(point.tokens for point in points)) * 1.05
    floor = max(0.0, min(point.low for point in labelled or points) - 3)
    ceiling = min(100.0, max(point.high for point in labelled or points) + 3)
    span = max(1.0, ceiling - floor)

    def x(tokens: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * tokens / largest

    def y(score: float) -> float:
        inside = min(max(score, floor), ceiling)
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (inside - floor) / span)

    parts = []
    for tick in _ticks(floor, ceiling):
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(tick):.1f}" '
            f'y2="{y(tick):.1f}"/><text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" '
            f'text-anchor="end">{tick:g}</text>'
        )
    for tick in _ticks(0, largest):
        parts.append(
            f'<text x="{x(tick):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">'
            f"{tick:,.0f}</text>"
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{html.escape(xlabel)}</text>'
        f'<text transform="translate(11 {(_TOP + _HEIGHT - _BOTTOM) / 2}) rotate(-90)" '
        f'text-anchor="middle">{html.escape(ylabel)}</text>'
    )
    for point in points:
        if not point.label:
            parts.append(
                f'<circle class="raced" cx="{x(point.tokens):.1f}" cy="{y(point.score):.1f}" '
                'r="2.5"/>'
            )
    heights = _apart([y(point.score) for point in labelled])
    for point, label_y in zip(labelled, heights, strict=True):
        kind = "best" if point.best else "final"
        px = x(point.tokens)
        py = y(point.score)
        left = px > _WIDTH * 0.55
        parts.append(
            f'<g class="{kind}"><line x1="{px:.1f}" x2="{px:.1f}" y1="{y(point.low):.1f}" '
            f'y2="{y(point.high):.1f}"/><circle cx="{px:.1f}" cy="{py:.1f}" r="5"/>'
            f'<text x="{px + (-9 if left else 9):.1f}" y="{label_y + 4:.1f}" '
            f'text-anchor="{"end" if left else "start"}">{html.escape(point.label)}</text></g>'
        )
    description = "; ".join(
        f"{p.label} {p.score:.1f} ({p.low:.1f} to {p.high:.1f}) with {p.tokens:,.0f} tokens"
        for p in labelled
    )
    return (
        f'<svg class="scatter" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{html.escape(title)}</title><desc>{html.escape(description)}</desc>{''.join(parts)}</svg>"
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
