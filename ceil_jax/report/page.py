"""The HTML page: tables, charts, figures and the example browser in one self-contained file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import islice
from typing import Any

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.report.plots import draw_points, picture
from ceil_jax.report.run_tables import RunTable
from ceil_jax.report.runs import cost_table
from ceil_jax.report.table import typeset
from ceil_jax.store.cost import Cost

BROWSED = 1000
"""The number of queries of a table that the example browser shows."""

_LONGEST = 1500
"""The maximum number of characters of a text that the example browser shows."""


def render(
    title: str,
    tables: Sequence[RunTable],
    *,
    costs: Mapping[str, Cost] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Return the page as HTML: its tables with their charts, and the cost of each stage.

    Args:
        title: the heading.
        tables: the tables, each with its chart.
        costs: the cost of each stage by its description; not shown by default.
        notes: lines under the tables; none by default.

    Its content security policy allows no script but its own, by hash, and no requests: scripts or
    links in an example stay text.
    """
    script = page_file("page.js")
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    cut = f"The browser has the first {BROWSED:,} queries of each table; the tables count all."
    paragraphs = [note for note in notes if note]
    paragraphs += [cut] if any(table.record.queries > BROWSED for table in tables) else []
    return page_file("page.html").format(
        policy="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src "
        f"'sha256-{hashed}'",
        title=html.escape(title),
        style=page_file("page.css"),
        notes="".join(f'<p class="note">{html.escape(note)}</p>' for note in paragraphs),
        tables="".join(map(_section, tables)),
        costs=f"<section><h2>What it cost</h2>{cost_table(costs).html()}</section>"
        if costs
        else "",
        data=_json([_browsable(table) for table in tables]),
        script=script,
    )


def page_file(file: str) -> str:
    """Return a file of this folder, such as page.css, the style of all pages."""
    return resources.files(__package__).joinpath(file).read_text("utf-8")


def chart(table: RunTable) -> tuple[bytes, bytes]:
    """Return a chart of a table's scores and intervals as two PNG files.

    One is for light mode and one for dark mode.
    """
    labels = [_short(row.label) for row in table.rows]
    values = [
        row.interval if row.known else Interval(row.value, row.value, row.value)
        for row in table.rows
    ]
    papers = [row.paper for row in table.rows]
    xlabel = f"{table.record.metric}, % (n = {table.record.queries})"
    height = 1.4 + 0.4 * len(labels)
    return picture(lambda axes: draw_points(axes, labels, values, papers, xlabel), 5.2, height)


def _short(label: str) -> str:
    """A row's label in at most two lines, without a remark in brackets."""
    without_remark = re.sub(r" \([^()]*\)$", "", label)
    lines = textwrap.wrap(without_remark, 24)
    return "\n".join(lines[:2]) + ("…" if len(lines) > 2 else "")


def _section(table: RunTable) -> str:
    parts = [
        f"<section><h2>{html.escape(table.record.task)}</h2><p>{html.escape(table.lead)}</p>",
        # the significant differences come first, where a phone shows them too
        f"<p>{html.escape(typeset(table.significance))}</p>" if table.significance else "",
        table.table().html(),
        *(f'<p class="note">{html.escape(line)}</p>' for line in table.remarks.splitlines()),
        _figure(
            f"{table.record.task}: the score of each method with its 95 % interval.", *chart(table)
        ),
    ]
    if table.paper or any(row.paper is not None for row in table.rows):
        others = ", ".join(f"{name} {value:.1f}" for name, value in table.paper.items())
        parts.append(
            "<p>The column “paper” and the hollow diamonds are from CEIL (Ye et al., 2023), Table "
            "2, with GPT-Neo 2.7B, BERT-base encoders and up to 50 examples."
            + (f" Its other rows are {html.escape(others)}.</p>" if others else "</p>")
        )
    if table.differences:
        listed = "".join(
            f"<li>{html.escape(typeset(str(difference)))}</li>" for difference in table.differences
        )
        parts.append(
            "<details><summary>Paired differences on the same queries, with 95 % bootstrap "
            f"intervals</summary><ul>{listed}</ul></details>"
        )
    return "".join(parts) + "</section>"


def _figure(caption: str, light: bytes, dark: bytes) -> str:
    image, source = (
        f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in (light, dark)
    )
    return (
        f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{source}">'
        f'<img alt="{html.escape(caption)}" src="{image}"></picture>'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def _browsable(table: RunTable) -> dict[str, Any]:
    """Return the first queries of each run with their examples, as JSON values.

    The format is `{title, texts, runs: [{label, rows}]}`, where a row is [query, score, prediction,
    [[example, relevance, gain], …]] and a text is [id, input, output]. Queries and examples are
    indices into `texts`. The gain is the marginal log-determinant of DPP-MAP, and null for other
    methods. Numbers that are not finite become null.
    """
    record = table.record
    stored = json.loads((record.root / record.texts / "texts.json").read_text("utf-8"))
    texts: list[list[str]] = []
    positions: dict[tuple[str, str], int] = {}

    def position_of(kind: str, id: str) -> int:
        if (kind, id) not in positions:
            positions[kind, id] = len(texts)
            texts.append([id, *(_cut(text) for text in stored[kind].get(id, ("?", "?")))])
        return positions[kind, id]

    runs = []
    for run in table.rows:
        # gains of another kind repeat the relevance, or are MMR's values
        with_gains = run.record.gains == "log determinant"
        rows = []
        for row, score in islice(zip(run.record.rows(), run.scores, strict=True), BROWSED):
            query = position_of("queries", row["id"])
            examples = [
                [position_of("bank", id), _finite(relevance), _finite(gain) if with_gains else None]
                for id, relevance, gain in row["examples"]
            ]
            rows.append([query, _finite(round(float(score), 4)), _cut(row["prediction"]), examples])
        runs.append({"label": run.label, "rows": rows})
    return {"title": f"{record.task}, {record.lm}", "texts": texts, "runs": runs}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _cut(text: str) -> str:
    return (
        text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters in all)"
    )


def _json(value: Any) -> str:
    """Return JSON that can neither end a script element nor begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate({ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})
