"""Measured entries to a table: Markdown for a reader, CSV for a program, the paper's numbers beside ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from ceil_jax.metrics.bootstrap import Interval, averaged_interval, paired
from ceil_jax.report.grid import Measured

BASELINES = {"epr": "EPR", "topk": "top-k"}
"""Every entry is compared with these methods' entries under the same configuration, where the table has them."""


@dataclass(frozen=True)
class Table:
    """What an experiment found."""

    title: str
    measured: Sequence[Measured]
    failed: dict[str, str] = field(default_factory=dict)
    """Task → why it has no numbers."""
    notes: Sequence[str] = ()
    sections: Sequence[tuple[str, list[list[str]]]] = ()
    """Further tables: a heading, and lines of cells of which the first is the header."""

    def at(self, task: str, row: str, column: str) -> Measured | None:
        for one in self.measured:
            if (one.entry.task, one.entry.row, one.entry.column) == (task, row, column):
                return one
        return None

    def difference(self, one: Measured, baseline: str) -> Interval | None:
        """Of an entry less a baseline's with the same configuration; None where the table has no such."""
        other = self._baseline(one, baseline)
        return None if other is None else one.minus(other)

    def _baseline(self, one: Measured, baseline: str) -> Measured | None:
        if one.entry.cell.method == baseline or one.entry.cell.trained_by:
            return None
        wanted = one.entry.cell._replace(method=baseline).essential()
        for other in self.measured:
            if other.entry.cell.essential() == wanted:
                return other
        return None

    def markdown(self) -> str:
        """Title, one grid a task (or one for all where the columns are the tasks), every number's details."""
        out = [f"# {self.title}", ""]
        for heading, lines in self._grids():
            out += [*([f"## {heading}", ""] if heading else []), *markdown_table(lines), ""]
        for heading, lines in [*self._averages(), *self.sections]:
            out += [f"## {heading}", "", *markdown_table(lines), ""]
        if self.measured:
            out += ["## Every number", "", *markdown_table(self._details()), ""]
        out += [f"{task} has no numbers: {message}\n" for task, message in self.failed.items()]
        out += [f"{note}\n" for note in self.notes]
        return "\n".join(out)

    def _grids(self) -> list[tuple[str, list[list[str]]]]:
        grids: dict[str, list[Measured]] = {}
        for one in self.measured:
            grids.setdefault("" if one.entry.column == one.entry.task else one.entry.task, []).append(one)
        return [(heading, _grid(members)) for heading, members in grids.items()]

    def _averages(self) -> list[tuple[str, list[list[str]]]]:
        """Where the columns are tasks: the mean over them of every row that all of them have."""
        rows: dict[str, list[Measured]] = {}
        for one in self.measured:
            if one.entry.column == one.entry.task:
                rows.setdefault(one.entry.row, []).append(one)
        tasks = len({one.entry.task for members in rows.values() for one in members})
        if tasks < 2:
            return []
        lines = [["", "mean", "95 % interval", *(f"− {name}" for name in BASELINES.values())]]
        for row, members in rows.items():
            if len(members) < tasks:
                continue
            mean = averaged_interval([one.sample for one in members]).percent()
            lines.append([row, f"{mean.mean:.1f}", f"{mean.low:.1f} to {mean.high:.1f}"])
            for baseline in BASELINES:
                others = [self._baseline(one, baseline) for one in members]
                pairs = [paired(one.sample, it.sample) for one, it in zip(members, others, strict=True) if it]
                full = len(pairs) == tasks
                lines[-1].append(signed(averaged_interval(pairs).percent()) if full else "")
        return [(f"Mean over the {tasks} tasks", lines)]

    def _details(self) -> list[list[str]]:
        header = ["task", "row", "column", "n", "seeds", "metric", "value", "sd", "95 % interval", "paper"]
        header += [f"− {name}" for name in BASELINES.values()]
        return [header, *(self._detail(one) for one in self.measured)]

    def _detail(self, one: Measured) -> list[str]:
        entry = one.entry
        return [
            *(entry.task, entry.row, entry.column, str(one.queries), str(len(one.seeds)), one.metric),
            f"{one.interval.mean:.1f}",
            "" if one.sd is None else f"{one.sd:.1f}",
            f"{one.interval.low:.1f} to {one.interval.high:.1f}",
            "" if entry.paper is None else f"{entry.paper:.2f}",
            *(signed(self.difference(one, baseline)) for baseline in BASELINES),
        ]

    def csv(self) -> str:
        """One line a number."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        differences = [f"minus_{name}{end}" for name in BASELINES for end in ("", "_low", "_high")]
        header = ["task", "row", "column", "method", "metric", "lm", "n", "seeds"]
        writer.writerow([*header, "value", "sd", "low", "high", "paper", *differences])
        for one in self.measured:
            entry = one.entry
            found = [self.difference(one, baseline) for baseline in BASELINES]
            writer.writerow(
                [entry.task, entry.row, entry.column, entry.cell.method, one.metric, one.lm, one.queries]
                + [" ".join(map(str, one.seeds)), f"{one.interval.mean:.3f}"]
                + ["" if one.sd is None else f"{one.sd:.3f}"]
                + [f"{one.interval.low:.3f}", f"{one.interval.high:.3f}"]
                + ["" if entry.paper is None else f"{entry.paper:.2f}"]
                + [number for interval in found for number in _three(interval)]
            )
        return out.getvalue()


def _three(interval: Interval | None) -> list[str]:
    return ["", "", ""] if interval is None else [f"{number:.3f}" for number in interval]


def _grid(members: Sequence[Measured]) -> list[list[str]]:
    rows = list(dict.fromkeys(one.entry.row for one in members))
    columns = list(dict.fromkeys(one.entry.column for one in members))
    cells = {(one.entry.row, one.entry.column): cell(one) for one in members}
    return [["", *columns], *([row, *(cells.get((row, column), "") for column in columns)] for row in rows)]


def cell(one: Measured) -> str:
    """`43.2 ± 0.6 (paper 42.8)`: mean and standard deviation over seeds."""
    spread = "" if one.sd is None else f" ± {one.sd:.1f}"
    paper = "" if one.entry.paper is None else f" (paper {one.entry.paper:.1f})"
    return f"{one.interval.mean:.1f}{spread}{paper}"


def signed(interval: Interval | None) -> str:
    """`+1.5 (−0.5 to +3.5)`, nothing for none."""
    if interval is None:
        return ""
    return f"{interval.mean:+.1f} ({interval.low:+.1f} to {interval.high:+.1f})"


def markdown_table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of cells, the first of them the header; numbers to the right."""
    header, *body = lines
    rule = ["---", *["---:"] * (len(header) - 1)]
    return ["| " + " | ".join(line) + " |" for line in (header, rule, *body)]
