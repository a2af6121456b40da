"""Scores with their intervals as inline SVG, whose colours are the page's."""

from __future__ import annotations

import html

from ceil_jax.report.run_tables import RunTable

_LEFT, _WIDTH, _STEP = 230, 520, 28


def scores_chart(table: RunTable) -> str:
    """A dot and a bar a run, a hollow diamond where the paper has a number; the first run on top."""
    values = [v for row in table.rows for v in (row.interval.low, row.interval.high, row.record.value)]
    values += [row.paper for row in table.rows if row.paper is not None]
    low, high = max(0.0, min(values) - 2), min(100.0, max(values) + 2)
    scale = _WIDTH / max(high - low, 1e-9)
    bottom = _STEP * len(table.rows) + 8

    def x(value: float) -> str:
        return f"{_LEFT + (value - low) * scale:.1f}"

    parts = []
    step = next(s for s in (1, 2, 5, 10, 20, 50) if (high - low) / s <= 8 or s == 50)
    for tick in range(int(-(-low // step)) * step, int(high) + 1, step):
        parts.append(
            f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="0" y2="{bottom}"/>'
            f'<text x="{x(tick)}" y="{bottom + 16}" text-anchor="middle">{tick}</text>'
        )
    for place, row in enumerate(table.rows):
        y = _STEP * place + _STEP // 2
        kind = "learned" if row.record.method.startswith("ceil") else "plain"
        label = row.label if len(row.label) <= 34 else row.label[:33] + "…"
        parts.append(
            f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{html.escape(label)}</text>'
            f'<line class="bar {kind}" x1="{x(row.interval.low)}" x2="{x(row.interval.high)}" y1="{y}" y2="{y}"/>'
            f'<circle class="dot {kind}" cx="{x(row.record.value)}" cy="{y}" r="5">'
            f"<title>{html.escape(row.label)}: {row.record.value:.1f} "
            f"({row.interval.low:.1f} to {row.interval.high:.1f})</title></circle>"
        )
        if row.paper is not None:
            at = x(row.paper)
            parts.append(
                f'<path class="paper" d="M{at} {y - 7}l7 7l-7 7l-7 -7z"><title>paper: {row.paper:.1f}</title></path>'
            )
    size = f"0 0 {_LEFT + _WIDTH + 20} {bottom + 24}"
    title = html.escape(f"{table.title}: score of each method with its 95 % interval")
    return f'<svg class="chart" viewBox="{size}" role="img" aria-label="{title}">{"".join(parts)}</svg>'
