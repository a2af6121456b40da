"""The table of one experiment: its measured entries, their differences to the baselines, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ceil_jax.metrics.bootstrap import Interval, averaged_interval, paired
from ceil_jax.report.grid import Measured
from ceil_jax.report.table import Number, Span, Table, Value, signed

BASELINES = {"epr": "EPR", "topk": "top-k"}
"""Methods that every entry is compared with, where the experiment has their entry under the same configuration."""


@dataclass(frozen=True)
class ExperimentTable:
    """The measurements of an experiment."""

    title: str
    measured: Sequence[Measured]
    failed: dict[str, str] = field(default_factory=dict)
    """Task → why it has no numbers."""
    notes: Sequence[str] = ()
    sections: Sequence[Table] = ()
    """Further tables, each with a title."""

    def at(self, task: str, row: str, column: str) -> Measured | None:
        """Return the entry in one place of a task's table, or None."""
        for one in self.measured:
            if (one.entry.task, one.entry.row, one.entry.column) == (task, row, column):
                return one
        return None

    def by_task(self) -> dict[str, list[Measured]]:
        """Return the entries of each task."""
        found: dict[str, list[Measured]] = {}
        for one in self.measured:
            found.setdefault(one.entry.task, []).append(one)
        return found

    def difference(self, one: Measured, baseline: str) -> Interval | None:
        """Return an entry minus the baseline's entry of the same configuration, in points; None without one."""
        other = self._baseline(one, baseline)
        return None if other is None else one.minus(other)

    def _baseline(self, one: Measured, baseline: str) -> Measured | None:
        if one.entry.cell.method == baseline:
            return None
        wanted = one.entry.cell._replace(method=baseline).essential()
        for other in self.measured:
            if other.entry.cell.essential() == wanted:
                return other
        return None

    def markdown(self) -> str:
        """Return the title, a table for each task (one for all where the columns are tasks), and every number."""
        tables = [*self._crossed(), *self._averages(), *self._parts(), *self.sections]
        if self.measured:
            tables.append(self._details())
        parts = [f"# {self.title}\n", *(table.markdown() for table in tables)]
        parts += [f"{task} has no numbers: {message}\n" for task, message in self.failed.items()]
        return "\n".join([*parts, *(f"{note}\n" for note in self.notes)])

    def _crossed(self) -> list[Table]:
        groups: dict[str, dict[tuple[str, str], Value]] = {}
        for one in self.measured:
            entry = one.entry
            group = groups.setdefault("" if entry.column == entry.task else entry.task, {})
            group[entry.row, entry.column] = Number(one.interval.mean, sd=one.sd, paper=entry.paper)
        return [Table.crossed(cells, title) for title, cells in groups.items()]

    def _averages(self) -> list[Table]:
        """Return the mean over tasks of every row that all tasks have, where the columns are tasks."""
        rows: dict[str, list[Measured]] = {}
        for one in self.measured:
            if one.entry.column == one.entry.task:
                rows.setdefault(one.entry.row, []).append(one)
        tasks = len({one.entry.task for members in rows.values() for one in members})
        if tasks < 2:
            return []
        body: list[list[Value]] = []
        for row, members in rows.items():
            if len(members) < tasks:
                continue
            mean = averaged_interval([one.sample for one in members]).percent()
            body.append([row, mean.mean, Span(mean)])
            for baseline in BASELINES:
                others = [self._baseline(one, baseline) for one in members]
                pairs = [paired(one.sample, it.sample) for one, it in zip(members, others, strict=True) if it]
                full = len(pairs) == tasks
                body[-1].append(signed(averaged_interval(pairs).percent()) if full else None)
        header = ["", "mean", "95 % interval", *(f"− {name}" for name in BASELINES.values())]
        return [Table(header, body, f"Mean over the {tasks} tasks")]

    def _parts(self) -> list[Table]:
        """Return every number for the queries whose question, or output, stands in the bank, and for the others."""
        rows = []
        for task, members in self.by_task().items():
            for part, where in members[0].overlap.parts().items():
                here = replace(self, measured=[one.only(where) for one in members])
                for one in here.measured:
                    less = [signed(here.difference(one, baseline)) for baseline in BASELINES]
                    rows.append([task, part, one.entry.row, one.entry.column, one.interval.mean, *less])
        header = ["task", "part of the queries", "row", "column", "value"]
        header += [f"− {name}" for name in BASELINES.values()]
        return [Table(header, rows, "Queries that stand in the bank")] if rows else []

    def _details(self) -> Table:
        header = [
            "task",
            "row",
            "column",
            "n",
            "seeds",
            "metric",
            "value",
            "sd",
            "95 % interval",
            "#ICE",
            "paper",
        ]
        header += [f"− {name}" for name in BASELINES.values()]
        return Table(header, [self._detail(one) for one in self.measured], "Every number")

    def _detail(self, one: Measured) -> list[Value]:
        entry = one.entry
        return [
            *(entry.task, entry.row, entry.column, one.queries, len(one.seeds), one.metric),
            *(one.interval.mean, one.sd, Span(one.interval), one.examples),
            None if entry.paper is None else Number(entry.paper, 2),
            *(signed(self.difference(one, baseline)) for baseline in BASELINES),
        ]

    def csv(self) -> str:
        """Return a CSV file with a line for each number."""
        header = ["task", "row", "column", "method", "metric", "lm", "n", "seeds"]
        header += ["value", "sd", "low", "high", "examples", "paper"]
        header += [f"minus_{name}{end}" for name in BASELINES for end in ("", "_low", "_high")]
        return Table(header, [self._csv_row(one) for one in self.measured]).csv()

    def _csv_row(self, one: Measured) -> list[Value]:
        entry = one.entry
        found = [self.difference(one, baseline) for baseline in BASELINES]
        numbers = [one.interval.mean, one.sd, one.interval.low, one.interval.high, one.examples]
        return [
            *(entry.task, entry.row, entry.column, entry.cell.method, one.metric, one.lm, one.queries),
            " ".join(map(str, one.seeds)),
            *(None if number is None else Number(number, 3) for number in numbers),
            None if entry.paper is None else Number(entry.paper, 2),
            *(
                None if interval is None else Number(number, 3)
                for interval in found
                for number in interval or (0, 0, 0)
            ),
        ]
