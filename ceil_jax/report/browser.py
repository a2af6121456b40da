"""The data of the page's browser of examples: the rows of every run, each text once, within a size limit."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ceil_jax.pipeline.methods import METHODS
from ceil_jax.report.run_tables import RunTable

_LONGEST = 1500
"""Maximum number of characters shown of a text."""


class Browsable(NamedTuple):
    """The browser's data as JSON that is safe in a script element, and a note on what it leaves out."""

    content: str
    note: str


def browsable(tables: Sequence[RunTable], megabytes: float) -> Browsable:
    """Return the first queries of every run, as many as fit in `megabytes`.

    The format is `[{title, texts, runs: [{label, rows}]}]`, where a row is [query, score, prediction,
    [[example, relevance, gain], …]] and a text is [id, input, output]. Queries and examples are indices into
    `texts`. The gain is the marginal log-determinant, and null for methods that are no DPP-MAP; numbers that are not
    finite become null too.

    Args:
        tables: the tables of the page.
        megabytes: size limit of the JSON, in MB.
    """
    longest = max((len(table.rows[0].scores) for table in tables), default=0)
    count, content = longest, _json([_table(table, longest) for table in tables])
    while len(content) > megabytes * 1e6 and count > 1:
        # size grows a little more slowly than the number of queries, because texts are shared
        count = max(1, int(0.95 * count * megabytes * 1e6 / len(content)))
        content = _json([_table(table, count) for table in tables])
    note = ""
    if count < longest:
        note = (
            f"The browser has the first {count:,} queries of each table (the page would be too large with all "
            f"{longest:,}; --megabytes raises the limit of {megabytes:g} MB). Tables count all queries."
        )
    return Browsable(content, note)


def _table(table: RunTable, count: int) -> dict[str, Any]:
    stored = json.loads(
        (table.rows[0].record.root / table.rows[0].record.texts / "texts.json").read_text("utf-8")
    )
    texts: list[list[str]] = []
    places: dict[tuple[str, str], int] = {}

    def place(kind: str, id: str) -> int:
        if (kind, id) not in places:
            places[kind, id] = len(texts)
            texts.append([id, *(_cut(text) for text in stored[kind].get(id, ("?", "?")))])
        return places[kind, id]

    runs = []
    for run in table.rows:
        known = METHODS.get(run.record.method)
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
    return {"title": f"{table.title}, {table.rows[0].record.lm}", "texts": texts, "runs": runs}


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
