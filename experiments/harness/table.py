"""The tables of an experiment that was just run: values, means over tasks, differences and
parts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Number, Table, Value, signed, written
from harness.crossed import Crossed, Place
from harness.grid import Measured

BASELINES = {"epr": "EPR", "topk": "top-k"}
"""Methods with which every entry is compared, if the experiment has their entry under the same configuration."""


@dataclass(frozen=True)
class ExperimentTable:
    """The measurements of an experiment."""

    title: str
    measured: Sequence[Measured]
    failed: dict[str, str] = field(default_factory=dict)
    """Task → the reason why it has no numbers."""
    notes: Sequence[str] = ()
    sections: Sequence[Table] = ()
    """Further tables, each with a title."""

    def at(self, task: str, row: str, column: str) -> Measured | None:
        """Return the entry in one place of a task's table, or None if there is none."""
        for measurement in self.measured:
            if (measurement.entry.task, measurement.entry.row, measurement.entry.column) == (
                task,
                row,
                column,
            ):
                return measurement
        return None

    def less(self, row: str, header: str, title: str) -> Table:
        """Return the difference of every entry to the entry of one row in the same task and column.

        Args:
            row: the row that is subtracted.
            header: the table's second column, what the other rows are.
            title: the table's title.
        """
        rows = []
        for measurement in self.measured:
            base = self.at(measurement.entry.task, row, measurement.entry.column)
            if base is not None and measurement is not base:
                rows.append(
                    [measurement.entry.task, measurement.entry.row, signed(measurement.minus(base))]
                )
        return Table(["task", header, f"− {row}"], rows, title)

    def by_task(self) -> dict[str, list[Measured]]:
        """Return the entries of each task."""
        by_task: dict[str, list[Measured]] = {}
        for measurement in self.measured:
            by_task.setdefault(measurement.entry.task, []).append(measurement)
        return by_task

    def difference(self, measurement: Measured, baseline: str) -> Interval | None:
        """Return an entry's difference to the baseline's entry of the same configuration, in
        points; None if there is none."""
        other = self._baseline(measurement, baseline)
        return None if other is None else measurement.minus(other)

    def _baseline(self, measurement: Measured, baseline: str) -> Measured | None:
        if measurement.entry.cell.method == baseline:
            return None
        wanted = measurement.entry.cell._replace(method=baseline).work()
        for other in self.measured:
            if other.entry.cell.work() == wanted:
                return other
        return None

    def markdown(self) -> str:
        """Return the title, the tables of each task (or of all if the columns are tasks), and every number."""
        tables = [
            *(table for crossed in self._crossed() for table in crossed.tables()),
            *self.sections,
        ]
        if self.measured:
            tables.append(self._details())
        parts = [f"# {self.title}\n", *(table.markdown() for table in tables)]
        parts += [f"{task} has no numbers: {message}\n" for task, message in self.failed.items()]
        return "\n".join([*parts, *(f"{note}\n" for note in self.notes)])

    def _crossed(self) -> Iterator[Crossed]:
        groups: dict[str, dict[Place, Measured]] = {}
        for measurement in self.measured:
            entry = measurement.entry
            group = groups.setdefault("" if entry.column == entry.task else entry.task, {})
            group[entry.row, entry.column] = measurement
        for title, members in groups.items():
            minus: dict[str, dict[Place, Runs]] = {name: {} for name in BASELINES.values()}
            for place, measurement in members.items():
                for method, name in BASELINES.items():
                    if base := self._baseline(measurement, method):
                        minus[name][place] = base
            yield Crossed(members, minus, title)

    def _details(self) -> Table:
        header = ["task", "row", "column", "method", "LM", "n", "seeds", "metric", "value", "sd"]
        header += [
            "95 % interval",
            "examples",
            "paper",
            *(f"− {name}" for name in BASELINES.values()),
        ]
        return Table(
            header, [self._detail(measurement) for measurement in self.measured], "Every number"
        )

    def _detail(self, measurement: Measured) -> list[Value]:
        entry = measurement.entry
        return [
            entry.task,
            entry.row,
            entry.column,
            entry.cell.method,
            measurement.record.lm,
            measurement.queries,
            " ".join(map(str, measurement.seeds)),
            measurement.record.metric,
            measurement.value,
            measurement.sd,
            measurement.interval,
            measurement.examples,
            None if entry.paper is None else Number(entry.paper, 2),
            *(signed(self.difference(measurement, baseline)) for baseline in BASELINES),
        ]

    def csv(self) -> str:
        """Return every number as CSV."""
        return csv_of(self._details())


def csv_of(table: Table) -> str:
    """Return a table as CSV: whole numbers without thousands separators, and nothing for an empty cell."""

    def plain(cell: Value) -> str:
        if isinstance(cell, Number) and cell.sd is cell.interval is cell.paper is None:
            return f"{cell.value:.{cell.digits}f}"
        return str(cell) if isinstance(cell, int) else written(cell)

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([table.header, *([plain(cell) for cell in row] for row in table.rows)])
    return out.getvalue()
