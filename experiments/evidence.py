"""Draw the points over top-k against LM tokens, of every task and in the mean, and print them as a
table.

`python experiments/evidence.py` writes docs/evidence.svg from experiments/results.jsonl: EPR and
CEIL of `table2`, of `free_rows` the free rows and what starts from them, and of `learning_curve`
the most training queries of a task, each less the nearest neighbours on the same queries. New runs
come in by `python experiments/results.py --add FILE --data-dir DATA`, and then this command.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness.crossed import Place
from harness.results_file import RESULTS, Published, read_results

from ceil_jax.metrics.bootstrap import Interval, averaged_interval, bootstrap_interval, paired
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Number, Table, signed

FILE = Path(__file__).parents[1] / "docs" / "evidence.svg"
SHOTS, LM, ENCODER = 4, "SmolLM2-135M-Instruct@bfloat16", "all-MiniLM-L6-v2"
BASE = "dense top-k"
SERIES = {
    "learnt from the LM": (("table2", "free_rows"), ("EPR", "CEIL")),
    "learnt from the outputs": (("free_rows",), ("free",)),
    "from there, learnt from the LM": (("free_rows",), ("EPR from free", "CEIL from free")),
    "by more queries": (("learning_curve",), ("EPR from free", "CEIL from free")),
}
"""Lines of the figure: the experiments, of which the first that has a task counts, and the rows by
LM tokens. The mean is over the tasks of the first experiment."""
TASKS = {
    "geoquery": "GeoQuery",
    "geoquery.template": "its template split",
    "movie_reviews": "film reviews",
    "cmsqa": "CommonsenseQA",
    "sst5": "SST-5",
    "webqs": "WebQuestions",
    "nl2bash": "NL2Bash",
    "mrpc": "MRPC",
    "mtop": "MTOP",
    "qnli": "QNLI",
    "mnli": "MNLI",
}
"""Tasks → what pages call them, in the order of the panels."""
LEAST = 3
"""The mean has a line where it is of so many tasks."""
PAPER = {"EPR": 7.72, "CEIL": 11.11}
"""The means of CEIL's Table 2, EPR and CEIL less top-k with BERT (53.37 and 56.76, 45.65)."""


class Gain(NamedTuple):
    """What a row has over top-k on one task, or in the mean over some."""

    row: str
    tokens: float
    """LM tokens of the first seed beyond those of top-k, in millions."""
    points: Interval
    tasks: int = 1


def places(
    records: Sequence[Published], experiment: str, shots: int = SHOTS, lm: str = LM
) -> dict[Place, Runs]:
    """Return the runs of each row on each task, of one experiment, number of examples and LM."""
    found: dict[Place, list[Published]] = {}
    for one in records:
        if (one.experiment, one.config["shots"], one.lm) == (experiment, shots, lm):
            encoder = one.config["encoder"]
            row = one.row if encoder == ENCODER else f"{one.row}, {encoder}"
            found.setdefault((row, one.task), []).append(one)
    return {place: Runs(members) for place, members in found.items()}


def gains(records: Sequence[Published]) -> dict[str, dict[str, list[Gain]]]:
    """Return the gains of each task, and of the mean, by the figure's lines."""
    found: dict[str, dict[str, list[Gain]]] = {"mean": {}}
    most = {task: _most(records, task) for task in TASKS}
    records = [
        one for one in records if one.experiment != "learning_curve" or one.column in most[one.task]
    ]
    runs = {name: places(records, name) for names, _ in SERIES.values() for name in names}
    for line, (experiments, rows) in SERIES.items():
        for row in rows:
            samples, tokens = [], []
            for task in TASKS:
                here = next(
                    (
                        runs[name]
                        for name in experiments
                        if {(row, task), (BASE, task)} <= {*runs[name]}
                    ),
                    None,
                )
                if here is None:
                    continue
                ours, base = here[row, task], here[BASE, task]
                less = paired(ours.sample, base.sample)
                million = (ours.record.cost.tokens - base.record.cost.tokens) / 1e6
                gain = Gain(row, million, bootstrap_interval(*less).percent())
                found.setdefault(task, {}).setdefault(line, []).append(gain)
                if here is runs[experiments[0]]:
                    samples.append(less)
                    tokens.append(million)
            if len(samples) >= LEAST:
                mean = Gain(
                    row, float(np.mean(tokens)), averaged_interval(samples).percent(), len(samples)
                )
                found["mean"].setdefault(line, []).append(mean)
    return found


def _most(records: Sequence[Published], task: str) -> tuple[str, str]:
    """The columns of a task's learning curve that the figure has: the untrained, and the most of
    over 400 queries."""
    columns = {
        one.column for one in records if (one.experiment, one.task) == ("learning_curve", task)
    }
    counts = {int(column.split()[0].replace(",", "")): column for column in columns - {"untrained"}}
    return "untrained", counts[max(counts)] if counts and max(counts) > 400 else ""


def table(found: Mapping[str, Mapping[str, Sequence[Gain]]]) -> str:
    """Return the figure's points as Markdown."""
    body = [
        [
            task if one.tasks == 1 else f"mean of {one.tasks}",
            one.row,
            Number(one.tokens, 2),
            signed(one.points),
        ]
        for task, lines in found.items()
        for gains in lines.values()
        for one in gains
    ]
    return Table(["", "row", "million LM tokens", f"points over {BASE}"], body).markdown()


STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .head { font-weight: 600 } .soft { fill: #59636e }
line { stroke: #d0d7de } .zero { stroke: #59636e } .mark { stroke-width: 2 }
.c0 { stroke: #2f6f9f } .c1 { stroke: #bf5700 } .c2 { stroke: #6a3d9a }
.t0 { fill: #2f6f9f } .t1 { fill: #bf5700 } .t2 { fill: #6a3d9a }
.c3 { stroke: #1a7f37 } .t3 { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9aa4af } line { stroke: #3d444d } .zero { stroke: #9aa4af }
  .c0 { stroke: #58a6d8 } .c1 { stroke: #ffa657 } .c2 { stroke: #c9a2f2 }
  .t0 { fill: #58a6d8 } .t1 { fill: #ffa657 } .t2 { fill: #c9a2f2 }
  .c3 { stroke: #56d364 } .t3 { fill: #56d364 }
}
"""
LEFT, WIDTH, HEIGHT, LARGE, GAP, TOP = 30, 130, 130, 250, 48, 64
"""Pixels: the place of the mean's panel, a task's panel, the width of the mean's, the gap, and the
first row."""
ROWS = 3
"""Of the tasks' panels."""


def drawing(found: Mapping[str, Mapping[str, Sequence[Gain]]]) -> str:
    """Return the figure as SVG: the mean to the left, a panel for each task, all on one scale."""
    points = [one for lines in found.values() for gains in lines.values() for one in gains]
    scale = Scale(
        min(0.0, *(one.points.low for one in points)),
        max(*PAPER.values(), *(one.points.high for one in points)),
        1.1 * max(one.tokens for one in points),
    )
    tasks = [task for task in TASKS if task in found]
    columns, tall = -(-len(tasks) // ROWS), ROWS * (HEIGHT + GAP) - GAP
    width, height = LEFT + LARGE + 80 + columns * (WIDTH + 20), TOP + tall + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">',
        "<title>Points over top-k against LM tokens, with 95 % "
        f"intervals</title><style>{STYLE}</style>",
    ]
    for place, (line, (_, rows)) in enumerate(SERIES.items()):
        counts = sorted({one.tasks for one in found["mean"].get(line, ())})
        text = f"{line}: {', '.join(rows)}" + (f" (mean of {counts[-1]} tasks)" if counts else "")
        if any(line in lines for lines in found.values()):
            x, y = LEFT + 500 * (place % 2), 14 + 18 * (place // 2)
            parts.append(f'<text class="t{place}" x="{x}" y="{y}">{escape(text)}</text>')
    parts += _panel("mean", found["mean"], LEFT, TOP, LARGE, tall, scale)
    for name, gain in PAPER.items():
        at = round(TOP + tall * scale.down(gain), 1)
        parts.append(f'<text class="soft" x="{LEFT + LARGE + 4}" y="{at + 4}">◂ {name} in</text>')
        parts.append(f'<text class="soft" x="{LEFT + LARGE + 14}" y="{at + 17}">the paper</text>')
    for place, task in enumerate(tasks):
        x, y = (
            LEFT + LARGE + 100 + place % columns * (WIDTH + 20),
            TOP + place // columns * (HEIGHT + GAP),
        )
        parts += _panel(TASKS[task], found[task], x, y, WIDTH, HEIGHT, scale)
    note = "million LM tokens before the first query; the zero line is top-k on the same queries"
    parts.append(f'<text class="soft" x="{LEFT}" y="{height - 8}">{note}</text>')
    return "\n".join([*parts, "</svg>", ""])


class Scale(NamedTuple):
    """The ends of the axes of all panels."""

    low: float
    high: float
    tokens: float

    def down(self, points: float) -> float:
        """Return the place of some points as a share of the height, from the top."""
        return (self.high - points) / (self.high - self.low)


def _panel(
    title: str,
    lines: Mapping[str, Sequence[Gain]],
    left: float,
    top: float,
    width: float,
    height: float,
    scale: Scale,
) -> Iterator[str]:
    def x(tokens: float) -> float:
        return round(left + 8 + (width - 20) * math.sqrt(max(tokens, 0) / scale.tokens), 1)

    def y(points: float) -> float:
        return round(top + height * scale.down(points), 1)

    yield f'<text class="head" x="{left}" y="{top - 6}">{escape(title)}</text>'
    for points in range(5 * math.ceil(scale.low / 5), int(scale.high) + 1, 5):
        kind = "" if points else ' class="zero"'
        yield f'<line{kind} x1="{left}" x2="{left + width}" y1="{y(points)}" y2="{y(points)}"/>'
        if title == "mean":
            name = f"{points:+}" if points else "top-k"
            yield f'<text class="soft" x="{left - 28}" y="{y(points) + 4}">{name}</text>'
    for tokens in (0, 1, 5, 20):
        yield f'<text class="soft" x="{x(tokens) - 4}" y="{top + height + 14}">{tokens:g}</text>'
    for place, line in enumerate(SERIES):
        for one in lines.get(line, ()):
            at, (middle, least, most) = x(one.tokens), map(y, one.points)
            yield f'<line class="c{place} mark" x1="{at}" x2="{at}" y1="{least}" y2="{most}"/>'
            yield f'<circle class="t{place}" cx="{at}" cy="{middle}" r="4"/>'
            name = one.row.split()[0] if title == "mean" else one.row[0]
            yield f'<text class="t{place}" x="{at + 5}" y="{middle + 4}">{name}</text>'


def main() -> None:
    """Write the figure."""
    found = gains(read_results(RESULTS))
    FILE.write_text(drawing(found), encoding="utf-8")
    print(f"wrote {FILE.name}\n\n{table(found)}")


if __name__ == "__main__":
    main()
