"""The frontier: score against tokens a prompt, as SVG that follows dark mode."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable

from ceil_jax.tuning.outcome import Finished, Outcome, Runner

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 640, 400, 46, 44, 14
"""Pixels: the drawing, and its margins for the axes."""

_STYLE = """<style>
.frontier { color-scheme: light dark; font: 13px system-ui, sans-serif; max-width: 100%; height: auto; }
.frontier text { fill: light-dark(#1f2328, #e6edf3); } .frontier .axis { stroke: light-dark(#ccc, #555); }
.frontier .raced { stroke: light-dark(#8c96a3, #7d8590); fill: none; }
.frontier .final { stroke: light-dark(#0072b2, #56b4e9); stroke-width: 2; fill: light-dark(#0072b2, #56b4e9); }
.frontier .chosen { stroke: light-dark(#b85c00, #e69f00); stroke-width: 2; fill: light-dark(#b85c00, #e69f00); }
.frontier .best { stroke: light-dark(#8c96a3, #7d8590); stroke-dasharray: 4 4; fill: none; }
</style>"""


def frontier(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points (tokens, score) that no cheaper or equally cheap point beats, by tokens.

    >>> frontier([(9, 50), (5, 50), (20, 60)])
    [(5, 50), (20, 60)]
    """
    found: list[tuple[float, float]] = []
    for tokens, score in sorted(points, key=lambda point: (point[0], -point[1])):
        if not found or score > found[-1][1]:
            found.append((tokens, score))
    return found


def draw(outcome: Outcome) -> str:
    """Return the drawing: the final rows' prompts in colour, those that raced in grey.

    Only candidates that answered as many tuning rows as the winner are drawn in grey; the scores of others are not
    comparable.

    Args:
        outcome: the end of a search.
    """
    most = max((one.rows for one in outcome.runners), default=0)
    raced = [one for one in outcome.runners if one.rows == most]
    values = [v for one in outcome.finals for v in one.score.percent()]
    values += [one.score.percent().mean for one in raced]
    low = max(0.0, 10 * math.floor((min(values) - 2) / 10))
    high = min(100.0, 10 * math.ceil((max(values) + 2) / 10))
    right = 1.05 * max([one.tokens for one in raced] + [one.tokens for one in outcome.finals])
    bottom = _HEIGHT - _BOTTOM

    def x(tokens: float) -> float:
        return _LEFT + tokens / right * (_WIDTH - _LEFT - 10)

    def y(score: float) -> float:
        return bottom - (score - low) / max(high - low, 1e-9) * (bottom - _TOP)

    parts = []
    step = 10 if high - low > 30 else 5
    for tick in range(int(low), int(high) + 1, step):
        parts.append(
            f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
            f'<text x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>'
        )
    for tokens in _ticks(right):
        parts.append(f'<text x="{x(tokens):.1f}" y="{bottom + 18}" text-anchor="middle">{tokens:,}</text>')
    parts.append(
        f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 6}" text-anchor="middle">LM tokens a prompt</text>'
        f'<text x="{_LEFT + 4}" y="{_TOP + 14}">{html.escape(outcome.metric)}, %</text>'
    )
    edge = frontier((one.tokens, one.score.percent().mean) for one in outcome.finals)
    best = " ".join(f"{x(tokens):.1f},{y(score):.1f}" for tokens, score in edge)
    parts.append(f'<polyline class="best" points="{best}"/>')
    for one in raced:
        at = f'cx="{x(one.tokens):.1f}" cy="{y(one.score.percent().mean):.1f}"'
        parts.append(f'<circle class="raced" {at} r="4">{_title(one, "tuning")}</circle>')
    for place, final in enumerate(outcome.finals):
        kind = "chosen" if final is outcome.recommended else "final"
        parts.append(_mark(final, x(final.tokens), y, kind, f"{place + 1}"))
    title = html.escape(f"{outcome.task}: score against tokens a prompt")
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    return (
        f'<svg class="frontier" xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}">'
        f"{_STYLE}{''.join(parts)}</svg>"
    )


def _mark(point: Finished, at: float, y: Callable[[float], float], kind: str, number: str) -> str:
    """A final prompt: its interval, its score as a disc or (recommended) a square, and its number in the table."""
    middle, bottom, top = map(y, point.score.percent())
    mark = (
        f"M{at - 6:.1f} {middle - 6:.1f}h12v12h-12z"
        if kind == "chosen"
        else f"M{at - 5:.1f} {middle:.1f}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0"
    )
    return (
        f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>'
        f'<path class="{kind}" d="{mark}">{_title(point, "final")}</path>'
        f'<text x="{at + 9:.1f}" y="{middle - 7:.1f}">{number}</text>'
    )


def _title(point: Runner | Finished, rows: str) -> str:
    value, low, high = point.score.percent()
    text = (
        f"{point.label}: {value:.1f} ({low:.1f} to {high:.1f}) on the {rows} rows, {point.tokens:,.0f} tokens"
    )
    return f"<title>{html.escape(text)}</title>"


def _ticks(right: float) -> list[int]:
    step = 10 ** math.floor(math.log10(max(right, 1)))
    while right / step < 3:
        step /= 2
    step = max(1, round(step))
    return list(range(0, int(right) + 1, step))
