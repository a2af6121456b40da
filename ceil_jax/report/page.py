"""The HTML page: tables, charts, figures and the browser of examples in one self-contained file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from ceil_jax.pipeline.methods import METHODS
from ceil_jax.report.certainty import certainty
from ceil_jax.report.run_tables import RunTable
from ceil_jax.report.table import Number, Table, signed, typeset
from ceil_jax.store.cost import Cost

_LEFT, _WIDTH, _STEP = 12, 340, 40
"""Left margin, width of the axis and height of a row, in pixels. They fit a phone, so that the text is not scaled
down."""


_LONGEST = 1500
"""Maximum number of characters that the browser shows of a text."""


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
        notes: paragraphs with remarks on the numbers.
        megabytes: size limit of the browser's data, in MB.
    """
    data, left_out = browsable(tables, megabytes)
    script, style = (_beside(f"page.{kind}") for kind in ("js", "css"))
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shown = [note for note in (*notes, left_out) if note]
    return _beside("page.html").format(
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
        data=data,
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
        '<p class="keys">Squares: methods that learn; circles: the others; lines: 95 % intervals.</p>',
    ]
    if any(row.paper is not None for row in table.rows) or paper:
        others = f" Its other rows are {html.escape(paper)}." if paper else ""
        parts.append(
            "<p>The column “paper” and the hollow diamonds are from CEIL (Ye et al., 2023), Table 2, "
            f"with GPT-Neo 2.7B, BERT-base encoders and up to 50 examples.{others}</p>"
        )
    if differences:
        said = certainty(table.differences, table.rows[0].queries)
        parts.append(f"<p>{html.escape(typeset(said))}</p>")
        parts.append(
            "<details open><summary>Paired differences on the same queries, with 95 % bootstrap intervals"
            f"</summary><ul>{differences}</ul></details>"
        )
    return "".join(parts) + "</section>"


def _scores_chart(table: RunTable) -> str:
    """Return an SVG with a dot and an interval for each run, and a hollow diamond for the paper's number."""
    values = [v for row in table.rows for v in (row.interval.low, row.interval.high, row.value)]
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
        known = METHODS.get(row.method)
        kind = "learned" if known is not None and known.trains else "plain"
        label = row.label if len(row.label) <= 50 else row.label[:49] + "…"
        at = x(row.value)
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
            f"<title>{html.escape(row.label)}: {row.value:.1f} "
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


def browsable(tables: Sequence[RunTable], megabytes: float) -> tuple[str, str]:
    """Return the first queries of every run, as many as fit in `megabytes`, and a note on what is left out.

    The format is `[{title, texts, runs: [{label, rows}]}]`, where a row is [query, score, prediction,
    [[example, relevance, gain], …]] and a text is [id, input, output]. Queries and examples are indices into
    `texts`. The gain is the marginal log-determinant, and null for methods that are no DPP-MAP; numbers that are not
    finite become null too.

    Args:
        tables: the tables of the page.
        megabytes: size limit of the JSON, in MB.
    """
    longest = max((table.rows[0].queries for table in tables), default=0)
    count, content = longest, _json([_browsable_table(table, longest) for table in tables])
    while len(content) > megabytes * 1e6 and count > 1:
        # size grows a little more slowly than the number of queries, because texts are shared
        count = max(1, int(0.95 * count * megabytes * 1e6 / len(content)))
        content = _json([_browsable_table(table, count) for table in tables])
    note = ""
    if count < longest:
        note = (
            f"The browser has the first {count:,} queries of each table (the page would be too large with all "
            f"{longest:,}; --megabytes raises the limit of {megabytes:g} MB). Tables count all queries."
        )
    return content, note


def _browsable_table(table: RunTable, count: int) -> dict[str, Any]:
    record = table.rows[0].record
    stored = json.loads((record.root / record.texts / "texts.json").read_text("utf-8"))
    texts: list[list[str]] = []
    places: dict[tuple[str, str], int] = {}

    def place(kind: str, id: str) -> int:
        if (kind, id) not in places:
            places[kind, id] = len(texts)
            texts.append([id, *(_cut(text) for text in stored[kind].get(id, ("?", "?")))])
        return places[kind, id]

    runs = []
    for run in table.rows:
        known = METHODS.get(run.method)
        # the other methods' gain is their relevance or an MMR value
        gains = known is not None and known.needs.trade_off == "tunable"
        rows = [
            [
                place("queries", row["id"]),
                _finite(round(float(score), 4)),
                _cut(row["prediction"]),
                [
                    [place("bank", id), _finite(relevance), _finite(gain) if gains else None]
                    for id, relevance, gain in row["examples"]
                ],
            ]
            for row, score in zip(run.record.rows()[:count], run.scores[:count], strict=True)
        ]
        runs.append({"label": run.label, "rows": rows})
    return {"title": f"{table.title}, {record.lm}", "texts": texts, "runs": runs}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters in all)"


def _json(value: Any) -> str:
    """Return JSON that can neither end a script element nor begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
