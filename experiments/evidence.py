"""Draw what CEIL gains over other methods, task by task, and print the table of results.

`python experiments/evidence.py` writes docs/evidence.svg. The numbers are those of experiments/results.jsonl, and
`tests/experiments/test_evidence.py` fails when the drawing or the page has others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from harness.crossed import Crossed, Place
from harness.results_file import RESULTS, read_results

from ceil_jax.metrics.bootstrap import Interval, averaged_interval, bootstrap_interval, paired
from ceil_jax.pipeline.records import Record
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Number, Table, Value, signed

FILE = Path(__file__).parents[1] / "docs" / "evidence.svg"
METHOD, SHOTS, LM = "CEIL", 4, "SmolLM2-135M-Instruct@bfloat16"
BASELINES = ("dense top-k", "EPR", "EPR + MAP")

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .head { font-weight: 600 } .soft { fill: #59636e }
line { stroke: #d0d7de } .interval { stroke: #2f6f9f; stroke-width: 2.5 } circle { fill: #2f6f9f }
.all .interval { stroke: #bf5700 } .all circle { fill: #bf5700 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9aa4af } line { stroke: #3d444d } .interval { stroke: #58a6d8 }
  circle { fill: #58a6d8 } .all .interval { stroke: #ffa657 } .all circle { fill: #ffa657 }
}
"""
NAMES, PANEL, GAP, NUMBERS, ROW, TOP = 130, 170, 24, 120, 26, 44
"""Widths of the tasks' names, of an axis, of the gap between panels and of a panel's numbers; the height of a row and
the place of the first, in pixels."""


class Panel(NamedTuple):
    """What the method gains over one baseline."""

    baseline: str
    gains: Mapping[str, Interval]
    """Task, or mean, → points."""


def evidence(records: Sequence[Record]) -> dict[Place, Runs]:
    """The runs of each method on each task: those of table 2 with SHOTS examples a prompt that LM answered."""
    places: dict[Place, list[Record]] = {}
    for record in records:
        if (record.experiment, record.config["shots"], record.lm) == ("table2", SHOTS, LM):
            places.setdefault((record.row, record.task), []).append(record)
    return {place: Runs(members) for place, members in places.items()}


def table(runs: Mapping[Place, Runs]) -> str:
    """The value of every method on every task, and their means, as Markdown."""
    return next(Crossed(runs, {}).tables()).markdown()


def costs(runs: Mapping[Place, Runs]) -> str:
    """LM tokens and seconds of the first seed, means over tasks, of every row that has all tasks, as Markdown."""
    tasks = {task for _, task in runs}
    body: list[list[Value]] = []
    for row in dict.fromkeys(row for row, _ in runs):
        found = [runs[row, task].record.cost for task in tasks if (row, task) in runs]
        if len(found) == len(tasks):
            means = (mean(cost.tokens for cost in found), mean(cost.seconds for cost in found))
            body.append([row, *(Number(one, 0) for one in means)])
    return Table(["", "LM tokens", "seconds"], body).markdown()


def panels(runs: Mapping[Place, Runs]) -> list[Panel]:
    """The gains over each baseline, on every task and in the mean."""
    tasks = [task for row, task in runs if row == METHOD]
    found = []
    for baseline in BASELINES:
        pairs = {task: paired(runs[METHOD, task].sample, runs[baseline, task].sample) for task in tasks}
        gains = {task: bootstrap_interval(*pair).percent() for task, pair in pairs.items()}
        found.append(Panel(baseline, {**gains, "mean": averaged_interval(list(pairs.values())).percent()}))
    return found


def drawing(found: Sequence[Panel]) -> str:
    """Panels side by side as SVG, all on one scale."""
    ends = [end for panel in found for gain in panel.gains.values() for end in (gain.low, gain.high)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    rows = list(found[0].gains)
    step = PANEL + NUMBERS + GAP
    width, height = NAMES + step * len(found) - GAP, TOP + ROW * len(rows) + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>Points that {METHOD} gains, with 95 % intervals</title><style>{STYLE}</style>",
    ]
    for place, row in enumerate(rows):
        parts.append(f'<text{_class(row, "head")} x="0" y="{TOP + ROW * place + 4}">{escape(row)}</text>')
    for i, panel in enumerate(found):
        left = NAMES + i * step

        def x(points: float, left: int = left) -> float:
            return round(left + PANEL * (points - low) / (high - low), 1)

        parts.append(f'<text class="head" x="{left}" y="14">{METHOD} − {escape(panel.baseline)}</text>')
        parts.append(f'<line x1="{x(0)}" x2="{x(0)}" y1="{TOP - 14}" y2="{height - 4}"/>')
        for place, (row, gain) in enumerate(panel.gains.items()):
            y = TOP + ROW * place
            parts.append(
                f"<g{_class(row, 'all')}>"
                f'<line class="interval" x1="{x(gain.low)}" x2="{x(gain.high)}" y1="{y}" y2="{y}"/>'
                f'<circle cx="{x(gain.mean)}" cy="{y}" r="4.5"/>'
                f'<text{_class(row, "head")} x="{left + PANEL + 10}" y="{y + 4}">{signed(gain)}</text></g>'
            )
    return "\n".join([*parts, "</svg>", ""])


def _class(row: str, name: str) -> str:
    return f' class="{name}"' if row == "mean" else ""


def main() -> None:
    """Write the figure."""
    runs = evidence(read_results(RESULTS))
    FILE.write_text(drawing(panels(runs)), encoding="utf-8")
    print(f"wrote {FILE}\n\n{table(runs)}\n{costs(runs)}")


if __name__ == "__main__":
    main()
