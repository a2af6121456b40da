"""Scores with their intervals as inline SVG, whose colours are the page's."""

from __future__ import annotations

import html

from ceil_jax.report.page_tables import Table

_LEFT, _WIDTH, _STEP = 230, 520, 28


def scores_chart(table: Table) -> str:
    """A dot and a bar a run, a hollow diamond where the paper has a number; the first run on top."""
    values = [v for line in table.lines for v in (line.interval.low, line.interval.high, line.record.value)]
    values += [line.paper for line in table.lines if line.paper is not None]
    low, high = max(0.0, min(values) - 2), min(100.0, max(values) + 2)
    scale = _WIDTH / max(high - low, 1e-9)
    bottom = _STEP * len(table.lines) + 8

    def x(value: float) -> str:
        return f"{_LEFT + (value - low) * scale:.1f}"

    parts = []
    step = next(s for s in (1, 2, 5, 10, 20, 50) if (high - low) / s <= 8 or s == 50)
    for tick in range(int(-(-low // step)) * step, int(high) + 1, step):
        parts.append(
            f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="0" y2="{bottom}"/>'
            f'<text x="{x(tick)}" y="{bottom + 16}" text-anchor="middle">{tick}</text>'
        )
    for place, line in enumerate(table.lines):
        y = _STEP * place + _STEP // 2
        kind = "learned" if line.record.method.startswith("ceil") else "plain"
        label = line.label if len(line.label) <= 34 else line.label[:33] + "…"
        parts.append(
            f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{html.escape(label)}</text>'
            f'<line class="bar {kind}" x1="{x(line.interval.low)}" x2="{x(line.interval.high)}" y1="{y}" y2="{y}"/>'
            f'<circle class="dot {kind}" cx="{x(line.record.value)}" cy="{y}" r="5">'
            f"<title>{html.escape(line.label)}: {line.record.value:.1f} "
            f"({line.interval.low:.1f} to {line.interval.high:.1f})</title></circle>"
        )
        if line.paper is not None:
            at = x(line.paper)
            parts.append(
                f'<path class="paper" d="M{at} {y - 7}l7 7l-7 7l-7 -7z"><title>paper: {line.paper:.1f}</title></path>'
            )
    size = f"0 0 {_LEFT + _WIDTH + 20} {bottom + 24}"
    title = html.escape(f"{table.title}: score of each method with its 95 % interval")
    return f'<svg class="chart" viewBox="{size}" role="img" aria-label="{title}">{"".join(parts)}</svg>'
