"""Draw the points over top-k of every task and in the mean, with LM tokens, and print them as a table.

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
SHOTS = 4
LM = "SmolLM2-135M-Instruct@bfloat16"
ENCODER = "all-MiniLM-L6-v2"
BASE = "dense top-k"
MORE = "by more queries"
SERIES = {
    "learnt from the LM": (("table2", "free_rows"), ("EPR", "CEIL")),
    "learnt from the outputs": (("free_rows",), ("free",)),
    "from there, learnt from the LM": (("free_rows",), ("EPR from free", "CEIL from free")),
    MORE: (("learning_curve",), ("EPR from free", "CEIL from free")),
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
    """The points that a row has over top-k on one task, or in the mean over some."""

    row: str
    tokens: float
    """LM tokens of the first seed beyond those of top-k, in millions."""
    points: Interval
    tasks: int = 1


def places(
    records: Sequence[Published], experiment: str, shots: int = SHOTS, lm: str = LM
) -> dict[Place, Runs]:
    """Return the runs of each row on each task, of one experiment, number of examples and LM."""
    by_place: dict[Place, list[Published]] = {}
    for record in records:
        if (record.experiment, record.config["shots"], record.lm) == (experiment, shots, lm):
            encoder = record.config["encoder"]
            row = record.row if encoder == ENCODER else f"{record.row}, {encoder}"
            by_place.setdefault((row, record.task), []).append(record)
    return {place: Runs(members) for place, members in by_place.items()}


def gains(records: Sequence[Published]) -> dict[str, dict[str, list[Gain]]]:
    """Return the gains of each task, and of the mean, by the figure's lines."""
    by_task: dict[str, dict[str, list[Gain]]] = {"mean": {}}
    most = {task: _most(records, task) for task in TASKS}
    records = [
        record
        for record in records
        if record.experiment != "learning_curve" or record.column in most[record.task]
    ]
    runs = {name: places(records, name) for names, _ in SERIES.values() for name in names}
    for line, (experiments, rows) in SERIES.items():
        for row in rows:
            samples = []
            tokens = []
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
                ours = here[row, task]
                base = here[BASE, task]
                less = paired(ours.sample, base.sample)
                million = (ours.record.cost.tokens - base.record.cost.tokens) / 1e6
                gain = Gain(row, million, bootstrap_interval(*less).percent())
                by_task.setdefault(task, {}).setdefault(line, []).append(gain)
                if here is runs[experiments[0]]:
                    samples.append(less)
                    tokens.append(million)
            if len(samples) >= LEAST:
                mean = Gain(
                    row, float(np.mean(tokens)), averaged_interval(samples).percent(), len(samples)
                )
                by_task["mean"].setdefault(line, []).append(mean)
    return by_task


def _most(records: Sequence[Published], task: str) -> tuple[str, str]:
    """The columns of a task's learning curve that the figure has: the untrained, and the most of
    over 400 queries."""
    columns = {
        record.column
        for record in records
        if (record.experiment, record.task) == ("learning_curve", task)
    }
    counts = {int(column.split()[0].replace(",", "")): column for column in columns - {"untrained"}}
    return "untrained", counts[max(counts)] if counts and max(counts) > 400 else ""


def table(by_task: Mapping[str, Mapping[str, Sequence[Gain]]]) -> str:
    """Return the figure's points as Markdown."""
    body = [
        [
            task if gain.tasks == 1 else f"mean of {gain.tasks}",
            gain.row,
            Number(gain.tokens, 2),
            signed(gain.points),
        ]
        for task, lines in by_task.items()
        for gains in lines.values()
        for gain in gains
    ]
    return Table(["", "row", "million LM tokens", f"points over {BASE}"], body).markdown()


COLOURS = {
    "EPR": ("#bf5700", "#ffa657"),
    "CEIL": ("#2f6f9f", "#58a6d8"),
    "free": ("#1a7f37", "#56d364"),
}
"""Methods → their colour on light and on dark pages. A row that starts from another has that of its
own method, and a hollow mark."""
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .head { font-weight: 600 } .soft { fill: #59636e }
line { stroke: #d0d7de } .zero { stroke: #59636e } .mark { stroke-width: 2 } .hollow { fill: #ffffff }
"""
DARK = """
  text { fill: #e6edf3 } .soft { fill: #9aa4af } line { stroke: #3d444d } .zero { stroke: #9aa4af }
  .hollow { fill: #0d1117 }
"""
LEFT = 142
"""The width of the names of rows, in pixels, like all sizes here."""
WIDTH = 180
"""The width of a panel."""
STEP = 17
"""The height of a row of a panel."""
GAP = 34
"""The gap between panels."""
TOP = 64
"""The space above the first panel."""
COLUMNS = 3
"""Panels side by side."""
TOKENS = 52
"""Pixels for the LM tokens beside a panel."""
TICK = 10
"""Points between two numbers of an axis."""


def drawing(by_task: Mapping[str, Mapping[str, Sequence[Gain]]]) -> str:
    """Return the figure as SVG: a panel for the mean and for each task, with a line for each row
    and the same scale in all. A row that was not run on a task says so."""
    rows = [
        (line, row)
        for line, (_, members) in SERIES.items()
        for row in members
        if any(gain.row == row for lines in by_task.values() for gain in lines.get(line, ()))
    ]
    points = [
        gain.points for lines in by_task.values() for gains in lines.values() for gain in gains
    ]
    scale = Scale(
        min(0.0, *(interval.low for interval in points)),
        max(*PAPER.values(), *(interval.high for interval in points)),
    )
    panels = ["mean", *(task for task in TASKS if task in by_task)]
    each = LEFT + WIDTH + TOKENS
    tall = STEP * len(rows) + GAP + 16
    width = COLUMNS * each + 8
    height = TOP + -(-len(panels) // COLUMNS) * tall + 12
    light = _colours(0)
    dark = _colours(1)
    style = f"{STYLE}{light}@media (prefers-color-scheme: dark) {{{DARK}{dark}}}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">',
        f"<title>Points over top-k, with 95 % intervals</title><style>{style}</style>",
        '<text class="head" x="4" y="16">Points over the nearest examples (top-k) on the same queries, '
        "with 95 % intervals</text>",
        '<text class="soft" x="4" y="34">Hollow: training began with what the answers teach (free). '
        "More: 1,600 or 6,400 training queries, not 400. To the right: million LM tokens before the first "
        "query. ◂ the paper’s mean.</text>",
    ]
    for position, name in enumerate(panels):
        left = position % COLUMNS * each + LEFT
        top = TOP + position // COLUMNS * tall
        parts += _panel(name, by_task[name], rows, left, top, scale)
    return "\n".join([*parts, "</svg>", ""])


def _colours(page: int) -> str:
    return "".join(
        f".{name} {{ stroke: {shades[page]} }} .full-{name} {{ fill: {shades[page]} }} "
        for name, shades in COLOURS.items()
    )


class Scale(NamedTuple):
    """The ends of the axis of all panels, in points."""

    low: float
    high: float

    def across(self, points: float) -> float:
        """Return the place of some points as a share of the width, from the left."""
        return (points - self.low) / (self.high - self.low)


def _panel(
    name: str,
    lines: Mapping[str, Sequence[Gain]],
    rows: Sequence[tuple[str, str]],
    left: float,
    top: float,
    scale: Scale,
) -> Iterator[str]:
    def x(points: float) -> float:
        return round(left + WIDTH * scale.across(points), 1)

    bottom = top + STEP * len(rows)
    title = "mean" if name == "mean" else TASKS[name]
    yield f'<text class="head" x="{left}" y="{top - 6}">{escape(title)}</text>'
    for points in range(TICK * math.ceil(scale.low / TICK), int(scale.high) + 1, TICK):
        kind = "" if points else ' class="zero"'
        yield f'<line{kind} x1="{x(points)}" x2="{x(points)}" y1="{top}" y2="{bottom}"/>'
        number = f"{points:+}" if points else "0"
        yield f'<text class="soft" text-anchor="middle" x="{x(points)}" y="{bottom + 14}">{number}</text>'
    for position, (line, row) in enumerate(rows):
        y = round(top + STEP * (position + 0.5), 1)
        gain = next((gain for gain in lines.get(line, ()) if gain.row == row), None)
        if gain is None and line == MORE:
            continue  # run on two tasks
        label = f"{row}, more" if line == MORE else row
        if name == "mean" and gain is not None:
            label = f"{row}, {gain.tasks} tasks"
        kind = ' class="soft"' if gain is None else ""
        yield f'<text{kind} text-anchor="end" x="{left - 6}" y="{y + 4}">{escape(label)}</text>'
        if gain is None:
            yield f'<text class="soft" x="{left + WIDTH + 4}" y="{y + 4}">not run</text>'
            continue
        colour = row.split()[0]
        ends = f'x1="{x(gain.points.low)}" x2="{x(gain.points.high)}" y1="{y}" y2="{y}"'
        yield f'<line class="{colour} mark" {ends}/>'
        fill = "hollow" if " from " in row else f"full-{colour}"
        centre = f'cx="{x(gain.points.mean)}" cy="{y}"'
        yield f'<circle class="{colour} {fill} mark" {centre} r="4"/>'
        yield f'<text class="soft" x="{left + WIDTH + 4}" y="{y + 4}">{_million(gain.tokens)}</text>'
        if name == "mean" and row in PAPER:
            yield f'<text class="soft" x="{x(PAPER[row])}" y="{y + 4}">◂</text>'


def _million(tokens: float) -> str:
    """LM tokens beyond those of top-k, in millions. Answers differ in length, so that a row that
    prepares nothing has a little more or less than 0."""
    return "0" if abs(tokens) < 0.05 else f"{tokens:.1f}"


def main() -> None:
    """Write the figure."""
    by_task = gains(read_results(RESULTS))
    FILE.write_text(drawing(by_task), encoding="utf-8")
    print(f"wrote {FILE.name}\n\n{table(by_task)}")


if __name__ == "__main__":
    main()
