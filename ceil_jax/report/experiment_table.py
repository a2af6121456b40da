"""The tables of experiments, just run or published: values, means over tasks, differences and parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.pipeline.records import Record
from ceil_jax.pipeline.results_file import device_hours, read_results
from ceil_jax.report.grid import Measured
from ceil_jax.report.runs import Crossed, Place, Runs
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

    def less(self, row: str, header: str, title: str) -> Table:
        """Return the difference of every entry to that of one row in the same task and column.

        Args:
            row: the row that is subtracted.
            header: the table's second column, what the other rows are.
            title: the table's title.
        """
        found = []
        for one in self.measured:
            base = self.at(one.entry.task, row, one.entry.column)
            if base is not None and one is not base:
                found.append([one.entry.task, one.entry.row, signed(one.minus(base))])
        return Table(["task", header, f"− {row}"], found, title)

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
        """Return the title, the tables of each task (of all where the columns are tasks), and every number."""
        tables = [*(table for crossed in self._crossed() for table in crossed.tables()), *self.sections]
        if self.measured:
            tables.append(self._details())
        parts = [f"# {self.title}\n", *(table.markdown() for table in tables)]
        parts += [f"{task} has no numbers: {message}\n" for task, message in self.failed.items()]
        return "\n".join([*parts, *(f"{note}\n" for note in self.notes)])

    def _crossed(self) -> Iterator[Crossed]:
        groups: dict[str, dict[Place, Measured]] = {}
        for one in self.measured:
            entry = one.entry
            group = groups.setdefault("" if entry.column == entry.task else entry.task, {})
            group[entry.row, entry.column] = one
        for title, members in groups.items():
            minus: dict[str, dict[Place, Runs]] = {name: {} for name in BASELINES.values()}
            for place, one in members.items():
                for method, name in BASELINES.items():
                    if base := self._baseline(one, method):
                        minus[name][place] = base
            yield Crossed(members, minus, title)

    def _details(self) -> Table:
        header = ["task", "row", "column", "n", "seeds", "metric", "value", "sd"]
        header += ["95 % interval", "#ICE", "paper", *(f"− {name}" for name in BASELINES.values())]
        return Table(header, [self._detail(one) for one in self.measured], "Every number")

    def _detail(self, one: Measured) -> list[Value]:
        entry = one.entry
        return [
            *(entry.task, entry.row, entry.column, one.queries, len(one.seeds), one.metric),
            *(one.value, one.sd, Span(one.interval), one.examples),
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
        numbers = [one.value, one.sd, one.interval.low, one.interval.high, one.examples]
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


def published(file: Path, experiments: Sequence[str] = (), minus: Sequence[str] = ()) -> str:
    """Return a results file as Markdown: values, means over tasks, paired differences and costs.

    There is a table for each experiment and setting. Means, and intervals of differences, need records with
    statistics; the queries of each column are resampled independently (`averaged_interval`).

    Args:
        file: a results file.
        experiments: names as in the file; by default all.
        minus: rows that the others are compared with, where a table has them.

    Raises:
        UserError: no such file or experiment; a table with two runs in one place, or with different queries in a
            column.
    """
    return "\n".join(
        line
        for title, table in _tables(file, experiments, minus)
        for line in (f"# {title}\n", *(one.markdown() for one in _all_of(table)), _where(table))
    )


def published_data(
    file: Path, experiments: Sequence[str] = (), minus: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return a results file as JSON values: for each experiment and setting its title and tables.

    Args:
        file: a results file.
        experiments: as for `published`.
        minus: as for `published`.

    Raises:
        UserError: as for `published`.
    """
    return [
        {"title": title, "tables": [one.data() for one in _all_of(table)]}
        for title, table in _tables(file, experiments, minus)
    ]


def _tables(file: Path, experiments: Sequence[str], minus: Sequence[str]) -> list[tuple[str, Crossed]]:
    if not file.is_file():
        raise UserError(f"{file}: no such file; name one that --record wrote")
    records = read_results(file)
    if not records:
        raise UserError(f"{file}: no results in it")
    known = list(dict.fromkeys(record.experiment for record in records))
    for name in experiments:
        if name not in known:
            raise unknown_name("experiment", name, known)
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record.experiment in (experiments or known):
            groups.setdefault(_title(record), []).append(record)
    return [(title, _crossed(title, members, minus)) for title, members in groups.items()]


def _title(record: Record) -> str:
    """Return the title of a record's table: of all tasks if they are the columns, else of one task."""
    by_task = record.column == record.task
    name = record.experiment if by_task else f"{record.experiment} on {record.task}"
    shots = f"{record.config['shots']} examples a prompt, " if by_task else ""
    return f"{name} ({record.lm}, {shots}encoder {record.config['encoder']})"


def _crossed(title: str, records: Sequence[Record], minus: Sequence[str]) -> Crossed:
    """Return the records under one title, by their places in its table."""
    places: dict[Place, list[Record]] = {}
    for record in records:
        here = places.setdefault((record.row, record.column), [])
        if any(other.seed == record.seed for other in here):
            raise UserError(
                f"{title}: {record.row} on {record.column} is there twice, with other settings; "
                "keep them in two files"
            )
        here.append(record)
    runs = {place: Runs(members) for place, members in places.items()}
    for (row, column), one in runs.items():
        if one.known and len({(it.texts, it.metric, it.queries) for it in one.records}) > 1:
            raise UserError(f"{title}: seeds of {row} on {column} saw different queries")
    return Crossed(runs, {other: _compared(title, runs, other) for other in minus})


def _compared(title: str, runs: Mapping[Place, Runs], other: str) -> dict[Place, Runs]:
    """Return the runs of one row, by the places of the other rows in the same columns."""
    found = {}
    for (row, column), one in runs.items():
        base = runs.get((other, column))
        if base is None or row == other or not (one.known and base.known):
            continue
        if one.record.texts != base.record.texts:
            raise UserError(f"{title}: {row} and {other} saw different queries of {column}")
        found[row, column] = base
    return found


def _all_of(table: Crossed) -> Iterator[Table]:
    """Yield the tables of values and differences, costs, and the number of examples."""
    yield from table.tables()
    title = "Cost of the first seed, shared work included: LM tokens, seconds, GPU-hours or core-hours"
    yield table.crossed({place: _cost(one.record) for place, one in table.runs.items()}, title)
    counts = {place: one.examples for place, one in table.runs.items()}
    known = {place: Number(count) for place, count in counts.items() if count is not None}
    if known:
        yield table.crossed(known, "#ICE: examples that fitted into a prompt, mean")


def _cost(run: Record) -> str:
    elsewhere = " + training elsewhere" if run.trained_by else ""
    hours = device_hours(run.cost.seconds, run.device)
    return f"{run.cost.tokens:,}, {run.cost.seconds:,.0f}, {hours:.2f}{elsewhere}"


def _where(table: Crossed) -> str:
    """Return a line on the queries, the devices and the dates."""
    records = [record for one in table.runs.values() for record in one.records]
    where = sorted({f"{record.device}, {record.date}" for record in records})
    first = {column: one.queries for (_, column), one in reversed(list(table.runs.items()))}
    asked = [f"{first[column]} of {column}" for column in table.columns]
    return f"Queries: {', '.join(asked) if table.by_task else records[0].queries}. {'; '.join(where)}.\n"
