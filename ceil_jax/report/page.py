"""The HTML page: tables, charts, figures and the browser of examples in one self-contained file."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import NamedTuple

from ceil_jax.report.browser import browsable
from ceil_jax.report.run_tables import RunTable
from ceil_jax.report.table import Number, Table, signed, typeset
from ceil_jax.store.rows import Cost

_LEFT, _WIDTH, _STEP = 12, 340, 40
"""Pixels: left margin, width of the axis, height of a row with its label above the interval. A phone shows them as
they are, so that the text is not scaled down."""


class Figure(NamedTuple):
    """A picture for the page."""

    caption: str
    png: bytes
    dark: bytes | None = None
    """The same picture for dark mode."""


def render(
    title: str,
    tables: Sequence[RunTable],
    *,
    figures: Sequence[Figure] = (),
    costs: Mapping[str, Cost],
    notes: Sequence[str] = (),
    megabytes: float,
) -> str:
    """Return the page as HTML.

    Its content security policy allows only its own script, by hash, and no requests, so that whatever an example
    contains stays text.

    Args:
        title: the page's heading.
        tables: the tables, each with its chart.
        figures: pictures below the browser.
        costs: cost by stage or kind of stage.
        notes: paragraphs that a reader of the numbers should know.
        megabytes: size limit of the browser's data, in MB.
    """
    data = browsable(tables, megabytes)
    script, style = (_beside(f"page.{kind}") for kind in ("js", "css"))
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shown = [note for note in (*notes, data.note) if note]
    return _PAGE.format(
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{hashed}'",
        title=html.escape(title),
        style=style,
        notes="".join(f'<p class="note">{html.escape(note)}</p>' for note in shown),
        tables="".join(map(_section, tables)),
        figures=f'<div class="figures">{"".join(map(_figure, figures))}</div>',
        costs=_wide(
            Table(
                ["stage", "seconds", "LM tokens"],
                [[stage, Number(cost.seconds), cost.tokens or None] for stage, cost in costs.items()],
            )
        ),
        data=data.content,
        script=script,
    )


def stylesheet() -> str:
    """Return the style of all pages."""
    return _beside("page.css")


def _beside(file: str) -> str:
    return resources.files(__package__).joinpath(file).read_text("utf-8")


def _section(table: RunTable) -> str:
    differences = "".join(
        f"<li>{html.escape(f'{one.better} − {one.worse}')}: {typeset(str(signed(one.interval)))} points</li>"
        for one in table.differences
    )
    paper = ", ".join(f"{name} {value:.1f}" for name, value in table.paper.items())
    parts = [
        f"<section><h2>{html.escape(table.title)}</h2><p>{html.escape(table.lead)}</p>",
        _wide(table.table()),
        _scores_chart(table),
    ]
    if any(row.paper is not None for row in table.rows) or paper:
        others = f" Its other rows are {html.escape(paper)}." if paper else ""
        parts.append(
            "<p>The column “paper” and the hollow diamonds are from CEIL (Ye et al., 2023), Table 2, "
            f"with GPT-Neo 2.7B, BERT-base encoders and up to 50 examples.{others}</p>"
        )
    if differences:
        parts.append(
            "<details open><summary>Paired differences on the same queries, with 95 % bootstrap intervals"
            f"</summary><ul>{differences}</ul></details>"
        )
    return "".join(parts) + "</section>"


def _scores_chart(table: RunTable) -> str:
    """Return an SVG with a dot and an interval for each run, and a hollow diamond for the paper's number."""
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
        y = _STEP * place + 28
        kind = "learned" if row.record.method.startswith("ceil") else "plain"
        label = row.label if len(row.label) <= 50 else row.label[:49] + "…"
        at = x(row.record.value)
        # told apart by shape as well as by colour
        mark = (
            f"M{at} {y - 6}m-6 0h12v12h-12z"
            if kind == "learned"
            else f"M{at} {y}m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0"
        )
        parts.append(
            f'<text x="{_LEFT}" y="{y - 12}">{html.escape(label)}</text>'
            f'<line class="bar {kind}" x1="{x(row.interval.low)}" x2="{x(row.interval.high)}" y1="{y}" y2="{y}"/>'
            f'<path class="dot {kind}" d="{mark}">'
            f"<title>{html.escape(row.label)}: {row.record.value:.1f} "
            f"({row.interval.low:.1f} to {row.interval.high:.1f})</title></path>"
        )
        if row.paper is not None:
            at = x(row.paper)
            parts.append(
                f'<path class="paper" d="M{at} {y - 7}l7 7l-7 7l-7 -7z"><title>paper: {row.paper:.1f}</title></path>'
            )
    size = f"0 0 {_LEFT + _WIDTH + 20} {bottom + 24}"
    title = html.escape(f"{table.title}: score of each method with its 95 % interval")
    return f'<svg class="chart" viewBox="{size}" role="img" aria-label="{title}">{"".join(parts)}</svg>'


def _figure(figure: Figure) -> str:
    caption = html.escape(figure.caption)
    picture = f'<img alt="{caption}" src="{_address(figure.png)}">'
    if figure.dark is not None:
        dark = f'<source media="(prefers-color-scheme: dark)" srcset="{_address(figure.dark)}">'
        picture = f"<picture>{dark}{picture}</picture>"
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _address(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _wide(table: Table) -> str:
    """Return the table in a box that scrolls sideways on a narrow screen."""
    return f'<div class="wide">{table.html()}</div>'


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
{style}</style></head><body>
<h1>{title}</h1>
{notes}{tables}
<section id="browser" hidden>
<h2>Query by query</h2>
<div class="controls">
<label>task <select id="table"></select></label>
<label>run A <select id="a"></select></label>
<label>run B <select id="b"></select></label>
<button type="button" id="swap" title="swap A and B (x)">A ⇄ B</button>
<label>show <select id="filter"></select></label>
<label>search <input id="search" type="search" placeholder="in query, answers, examples (/)"></label>
</div>
<p id="counts" role="status"></p>
<div class="panes">
<div><ol id="list" role="listbox" tabindex="0" aria-label="queries"></ol>
<button type="button" id="more" hidden>more</button></div>
<div id="detail" aria-live="polite"></div>
</div>
<p class="keys"><kbd>j</kbd> <kbd>k</kbd> or arrows: next and previous query; <kbd>/</kbd> search; <kbd>x</kbd> swap A
and B. Examples stand in prompt order: the last is next to the query. Those that both runs chose are marked ●.</p>
</section>
<noscript><p>The browser of examples needs JavaScript; the tables do not.</p></noscript>
{figures}
<section><h2>What it cost</h2>{costs}</section>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body></html>
"""
