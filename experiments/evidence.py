"""Draw the gains of CEIL, EPR and free over the nearest examples on every task, next to the paper's
gains on the same task, and print them as a table.

`python experiments/evidence.py` writes docs/evidence.svg from experiments/results.jsonl: of EPR and
CEIL the first of `table2` and `cause` that has a task, of free `free_rows`, each less the nearest
neighbours on the same queries. New runs come in by `python experiments/results.py --add FILE
--data-dir DATA`, and then this command.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from harness.crossed import Place, alike
from harness.estimates import Estimate, estimate
from harness.results_file import RESULTS, Published, read_results
from table3 import PAPER as TABLE_3

from ceil_jax.metrics.bootstrap import paired
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Number, Table, Value
from ceil_jax.tasks import TASKS as ALL_TASKS

FILE = Path(__file__).parents[1] / "docs" / "evidence.svg"
SHOTS = 4
LM = "SmolLM2-135M-Instruct@bfloat16"
ENCODER = "all-MiniLM-L6-v2"
BASE = "dense top-k"
SERIES = {"CEIL": ("cause", "table2"), "EPR": ("cause", "table2"), "free": ("free_rows",)}
"""Rows → experiments; the first one that has the task counts."""
TASKS = {
    "mtop": "MTOP",
    "cogs.ps": "COGS, new roles",
    "geoquery.template": "GeoQuery, template split",
    "geoquery": "GeoQuery",
    "qnli": "QNLI",
    "mnli": "MNLI",
    "mrpc": "MRPC",
    "sst5": "SST-5",
    "movie_reviews": "film reviews",
    "cmsqa": "CommonsenseQA",
    "webqs": "WebQuestions",
    "nl2bash": "NL2Bash",
}
"""Tasks → their names on pages, in the order of the figure."""


class Gain(NamedTuple):
    """The gain of a row over the nearest examples on one task, in points."""

    row: str
    tokens: float
    """LM tokens of the first seed, in addition to those of the nearest examples, in millions."""
    seeds: int
    by_query: Estimate
    by_program: Estimate | None
    """The gain if every program has the same weight; None if no queries share a program."""
    paper: float | None
    """The row's gain over BERT in CEIL's paper, with GPT-Neo 2.7B, in points."""


def places(
    records: Sequence[Published], experiment: str, shots: int = SHOTS, lm: str = LM
) -> dict[Place, Runs]:
    """Return the runs of each row on each task, for one experiment, number of examples and LM."""
    by_place: dict[Place, list[Published]] = {}
    for record in records:
        if (record.experiment, record.config["shots"], record.lm) == (experiment, shots, lm):
            encoder = record.config["encoder"]
            row = record.row if encoder == ENCODER else f"{record.row}, {encoder}"
            by_place.setdefault((row, record.task), []).append(record)
    return {place: Runs(members) for place, members in by_place.items()}


def gains(records: Sequence[Published]) -> dict[str, list[Gain]]:
    """Return for each task the gains of the methods over the four nearest examples."""
    names = dict.fromkeys(name for experiments in SERIES.values() for name in experiments)
    runs = {name: places(records, name) for name in names}
    by_task: dict[str, list[Gain]] = {}
    for task in TASKS:
        for row, experiments in SERIES.items():
            here = next(
                (
                    runs[name]
                    for name in experiments
                    if {(row, task), (BASE, task)} <= {*runs[name]}
                ),
                None,
            )
            if here is not None:
                by_task.setdefault(task, []).append(_gain(task, here[row, task], here[BASE, task]))
    return by_task


def _gain(task: str, ours: Runs, base: Runs) -> Gain:
    def over(one: Runs, other: Runs) -> Estimate:
        return estimate({task: paired(one.sample, other.sample)})

    shared = alike(ours) is not ours
    record = ours.record
    assert isinstance(record, Published), "read from the results file"
    return Gain(
        record.row,
        max(0, ours.record.cost.tokens - base.record.cost.tokens) / 1e6,
        len(ours.records),
        over(ours, base),
        over(alike(ours), alike(base)) if shared else None,
        _paper(task, record.row),
    )


def _paper(task: str, row: str) -> float | None:
    """Return the row's gain over the nearest examples by BERT in CEIL's Tables 2 and 3 (GPT-Neo 2.7B), in points."""
    numbers = ALL_TASKS[task].paper or dict(
        zip(("BERT", "EPR", "CEIL"), TABLE_3["gpt-neo"].get(task, ()), strict=False)
    )
    return numbers[row] - numbers["BERT"] if row in numbers else None


def table(by_task: Mapping[str, Sequence[Gain]]) -> str:
    """Return the figure's points as Markdown."""
    body: list[list[Value]] = [
        [
            TASKS[task],
            gain.row,
            gain.seeds,
            Number(gain.tokens, 2),
            gain.by_query.difference(),
            gain.by_program and gain.by_program.difference(),
            None if gain.paper is None else Number(gain.paper, signed=True),
        ]
        for task, gains_of_task in by_task.items()
        for gain in gains_of_task
    ]
    header = ["task", "row", "seeds", "million LM tokens", f"points over {BASE}"]
    return Table([*header, "every program alike", "the paper, over BERT"], body).markdown()


COLOURS = {
    "CEIL": ("#2f6f9f", "#58a6d8"),
    "EPR": ("#bf5700", "#ffa657"),
    "free": ("#1a7f37", "#56d364"),
}
"""Rows → their colour on light and on dark pages."""
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .head { font-weight: 600 } .soft { fill: #59636e }
line { stroke: #d0d7de } .zero { stroke: #59636e } .mark { stroke-width: 2 } .hollow { fill: #ffffff }
.paper { stroke: #1f2328; fill: none; stroke-width: 1.5 }
"""
DARK = """
  text { fill: #e6edf3 } .soft { fill: #9aa4af } line { stroke: #3d444d } .zero { stroke: #9aa4af }
  .hollow { fill: #0d1117 } .paper { stroke: #e6edf3 }
"""
WIDTH = 460
"""The width of the figure, in pixels, like all sizes here: a phone shows it hardly smaller."""
LEFT = 132
"""The width of the names of tasks."""
STEP = 13
"""The height of a mark."""
GAP = 12
"""The space between tasks."""
TOP = 108
"""The space above the first task."""
TICK = 10
"""Points between two numbers of the axis."""


def drawing(by_task: Mapping[str, Sequence[Gain]]) -> str:
    """Return the figure as SVG: on each task a mark for each row and, if queries share programs, a
    hollow mark for the gain with every program weighing the same."""
    intervals = [
        one.interval
        for gains_of_task in by_task.values()
        for gain in gains_of_task
        for one in (gain.by_query, gain.by_program)
        if one is not None
    ]
    low = math.floor(min(one.low for one in intervals)) - 1
    high = math.ceil(max(one.high for one in intervals)) + 1

    def x(points: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 8) * (points - low) / (high - low), 1)

    marks: list[str] = []
    y = float(TOP)
    for task, gains_of_task in by_task.items():
        marks.append(f'<text text-anchor="end" x="{LEFT - 8}" y="{y + 11}">{_name(task)}</text>')
        for gain in gains_of_task:
            marks += _marks(gain, x, y)
            y += STEP * (1 if gain.by_program is None else 2)
        y += GAP
    bottom = y - GAP / 2
    axis: list[str] = []
    for points in range(TICK * math.ceil(low / TICK), high + 1, TICK):
        kind = "" if points else ' class="zero"'
        axis.append(f'<line{kind} x1="{x(points)}" x2="{x(points)}" y1="{TOP - 8}" y2="{bottom}"/>')
        number = f"{points:+}" if points else "0"
        axis.append(
            f'<text class="soft" text-anchor="middle" x="{x(points)}" y="{bottom + 16}">{number}</text>'
        )
    light, dark = _colours(0), _colours(1)
    style = f"{STYLE}{light}@media (prefers-color-scheme: dark) {{{DARK}{dark}}}"
    height = round(bottom + 26)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}">',
        f"<title>Points over the nearest examples, with 95 % intervals</title><style>{style}</style>",
        '<text class="head" x="4" y="18">Points over the four nearest examples</text>',
        '<text class="soft" x="4" y="37">with 95 % intervals, on the same queries</text>',
        *_legend(),
        *axis,
        *marks,
        "</svg>",
        "",
    ]
    return "\n".join(lines)


def _name(task: str) -> str:
    """Return a task's name, on two lines where it has two parts."""
    first, _, second = TASKS[task].partition(", ")
    rest = f'<tspan class="soft" x="{LEFT - 8}" dy="15">{escape(second)}</tspan>' if second else ""
    return f"{escape(first)}{rest}"


def _marks(gain: Gain, x: Callable[[float], float], y: float) -> Iterator[str]:
    """Yield the marks of a row on a task, with the paper's mark next to the first."""
    for place, one in enumerate([gain.by_query, gain.by_program]):
        if one is None:
            continue
        middle = y + STEP * (place + 0.5)
        ends = f'x1="{x(one.interval.low)}" x2="{x(one.interval.high)}" y1="{middle}" y2="{middle}"'
        yield f'<line class="{gain.row} mark" {ends}/>'
        fill = "hollow" if place else f"full-{gain.row}"
        centre = f'cx="{x(one.interval.mean)}" cy="{middle}"'
        yield f'<circle class="{gain.row} {fill} mark" {centre} r="4"/>'
        if gain.paper is not None and not place:
            yield _diamond(x(gain.paper), middle)


def _diamond(x: float, y: float) -> str:
    return f'<path class="paper" d="M{x} {y - 5} l5 5 l-5 5 l-5 -5 z"/>'


def _legend() -> Iterator[str]:
    """Yield the legend of the marks, on two lines."""
    x = 10
    for row, width in zip(COLOURS, (60, 56, 56), strict=True):
        yield f'<circle class="{row} full-{row} mark" cx="{x}" cy="55" r="4"/>'
        yield f'<text x="{x + 10}" y="59">{row}</text>'
        x += width
    yield f'<circle class="CEIL hollow mark" cx="{x}" cy="55" r="4"/>'
    yield f'<text x="{x + 10}" y="59">every program weighs the same</text>'
    yield _diamond(10, 77)
    yield '<text x="20" y="81">the same method in CEIL’s paper, with an LM of 2.7 billion</text>'


def _colours(page: int) -> str:
    return "".join(
        f".{name} {{ stroke: {shades[page]} }} .full-{name} {{ fill: {shades[page]} }} "
        for name, shades in COLOURS.items()
    )


def main() -> None:
    """Write the figure."""
    by_task = gains(read_results(RESULTS))
    FILE.write_text(drawing(by_task), encoding="utf-8")
    print(f"wrote {FILE.name}\n\n{table(by_task)}")


if __name__ == "__main__":
    main()
