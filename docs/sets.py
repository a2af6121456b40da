"""Draw what top-k picks and what a set picks for one query: `python docs/sets.py` writes
docs/sets.svg.

The bank is the film reviews and the encoder MiniLM, both fetched once from the package index;
nothing is trained.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ceil_jax import build_retriever, load_encoder, load_task
from ceil_jax.encoders.text_encoder import TextEncoder
from ceil_jax.tasks.example import Example

FILE = Path(__file__).parent / "sets.svg"
QUERY = 256
"""Position among the held-out sentences; one was looked for that shows the difference well."""
K, CANDIDATES, TRADE_OFF = 4, 50, 0.05

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .head { font-weight: 600; font-size: 14px }
.soft { fill: #59636e } .dot { fill: #b6bec8 } .query { fill: #bf5700 } .mark { fill: #2f6f9f } .number { fill: #fff }
.frame { fill: none; stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9aa4af } .dot { fill: #57606a } .query { fill: #ffa657 }
  .mark { fill: #58a6d8 } .number { fill: #0d1117 } .frame { stroke: #3d444d }
}
"""
WIDTH, PLANE, ROW = 460, 130, 36
"""Width of the figure, height of a panel's plane and of a chosen example's text, in pixels. A phone
shows the figure hardly smaller."""
RADIUS = 9
"""Of the mark of a chosen example."""


class Choice(NamedTuple):
    """One way of choosing: its title, and the places of its examples among the candidates, in
    order."""

    title: str
    places: list[int]


def choices(
    encoder: TextEncoder, bank: Sequence[Example], query: Example
) -> tuple[list[Example], np.ndarray, list[Choice]]:
    """The query's nearest examples, vectors of the query and of them [1 + n, D], and two ways of
    choosing k."""
    dense = build_retriever("dense", bank, encoder=encoder)
    dpp = build_retriever("dpp", bank, encoder=encoder, trade_off=TRADE_OFF, shortlist=CANDIDATES)
    near = [pick.position for pick in dense.retrieve([query], CANDIDATES)[0]]
    chosen = [near.index(pick.position) for pick in dpp.retrieve([query], K)[0]]
    candidates = [bank[position] for position in near]
    vectors = encoder.encode([query.input, *(example.input for example in candidates)])
    return (
        candidates,
        vectors,
        [
            Choice(f"top-k: the {K} nearest", list(range(K))),
            Choice(f"a set: {K} near ones that differ", chosen),
        ],
    )


def plane(vectors: np.ndarray) -> np.ndarray:
    """Positions [n, 2] in 0…1: the first two principal components, each with its largest entry to
    the right."""
    centred = vectors - vectors.mean(0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    places = left[:, :2] * values[:2]
    places *= np.sign(places[np.abs(places).argmax(0), [0, 1]])
    return (places - places.min(0)) / np.ptp(places, axis=0)


def apart(points: np.ndarray, distance: float) -> np.ndarray:
    """Return points [n, 2] moved so far that no two are nearer than a distance, or hardly."""
    points = points.copy()
    for _ in range(50):
        for i in range(len(points)):
            for other in range(i):
                gap = points[i] - points[other]
                length = float(np.hypot(*gap))
                if length < distance:
                    step = gap / length if length else np.array([1.0, 0.0])
                    points[i] += step * (distance - length) / 2
                    points[other] -= step * (distance - length) / 2
    return points


def drawing(encoder: TextEncoder, bank: Sequence[Example], query: Example) -> str:
    """Two panels, one below the other, as SVG: the candidates in the plane, and the texts of those
    that are chosen."""
    candidates, vectors, ways = choices(encoder, bank, query)
    places = plane(vectors)
    lines = textwrap.wrap(f"Query ◆ {query.input}", 62)
    panel = 26 + PLANE + 14 + ROW * K + 18
    top = 18 * len(lines) + 14
    height = top + len(ways) * panel
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}">',
        f"<title>Examples for one query: top-k and a set</title><style>{STYLE}</style>",
    ]
    for number, line in enumerate(lines):
        text = escape(line).replace(
            "Query ◆", '<tspan class="head">Query</tspan> <tspan class="query">◆</tspan>'
        )
        parts.append(f'<text x="2" y="{16 + 18 * number}">{text}</text>')
    for position, way in enumerate(ways):
        parts += _panel(way, candidates, vectors, places, top + position * panel)
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    way: Choice,
    candidates: Sequence[Example],
    vectors: np.ndarray,
    places: np.ndarray,
    top: int,
) -> list[str]:
    """The title of a way of choosing, its plane, and the texts of the chosen examples."""
    frame = top + 26
    at = np.column_stack(
        [
            14 + (WIDTH - 28) * places[:, 0],
            frame + 14 + (PLANE - 28) * (1 - places[:, 1]),
        ]
    )
    parts = [
        f'<text class="head" x="2" y="{top + 16}">{way.title}</text>',
        f'<rect class="frame" x="0.5" y="{frame}" width="{WIDTH - 1}" height="{PLANE}" rx="6"/>',
    ]
    parts += [
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
        for place, (x, y) in enumerate(at[1:])
        if place not in way.places
    ]
    x, y = at[0]
    parts.append(f'<text class="query" x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle">◆</text>')
    marks = apart(at[1:][way.places], 2 * RADIUS)
    for number, (place, (x, y)) in enumerate(zip(way.places, marks, strict=True), 1):
        row = frame + PLANE + 26 + ROW * (number - 1)
        text = candidates[place].input
        text = text if len(text) <= 60 else f"{text[:59].rstrip()}…"
        for mark_x, mark_y in ((x, y), (RADIUS + 1, row - 4)):
            parts.append(
                f'<circle class="mark" cx="{mark_x:.1f}" cy="{mark_y:.1f}" r="{RADIUS}"/>'
                f'<text class="number" x="{mark_x:.1f}" y="{mark_y + 4.5:.1f}" text-anchor="middle">'
                f"{number}</text>"
            )
        cosine = float(vectors[0] @ vectors[1 + place])
        parts.append(
            f'<text x="26" y="{row}">{escape(text)}</text>'
            f'<text class="soft" x="26" y="{row + 16}">'
            f"{escape(candidates[place].output)} · cosine {cosine:.2f}</text>"
        )
    return parts


def main() -> None:
    """Write the figure."""
    task = load_task("movie_reviews")
    FILE.write_text(
        drawing(load_encoder("all-MiniLM-L6-v2"), task.train, task.validation[QUERY]),
        encoding="utf-8",
    )
    print(f"wrote {FILE}")


if __name__ == "__main__":
    main()
