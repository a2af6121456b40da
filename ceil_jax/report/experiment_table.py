"""The tables of experiments, just run or published: values, means over tasks, differences and parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ceil_jax.metrics.bootstrap import Interval, Sample, paired
from ceil_jax.report.grid import Measured
from ceil_jax.report.runs import COST_COLUMNS, Runs, mean_of
from ceil_jax.report.table import Number, Span, Table, Value, signed

BASELINES = {"epr": "EPR", "topk": "top-k"}
"""Methods that every entry is compared with, where the experiment has their entry under the same configuration."""

Place = tuple[str, str]
"""(row, column) of a table."""


@dataclass(frozen=True)
class Crossed:
    """Runs by their places in a table."""

    runs: Mapping[Place, Runs]
    minus: Mapping[str, Mapping[Place, Runs]]
    """By the name of a baseline, what the runs in some places are compared with."""
    title: str = ""
    """The title of the values, with which the other titles begin."""

    @property
    def by_task(self) -> bool:
        """Whether the columns are tasks, over which rows have means."""
        return all(runs.record.task == column for (_, column), runs in self.runs.items())

    @property
    def columns(self) -> list[str]:
        """The columns in the order in which they first appear."""
        return list(dict.fromkeys(column for _, column in self.runs))

    def tables(self) -> Iterator[Table]:
        """Yield the values, the differences to each baseline, and both for the parts of the queries."""
        yield self._values()
        for name, bases in self.minus.items():
            if bases:
                yield self._differences(name, bases)
        yield from self._parts()

    def _values(self) -> Table:
        samples = {place: one.sample for place, one in self.runs.items() if one.known}
        table = self.crossed(
            {place: Number(one.value, sd=one.sd, paper=one.paper) for place, one in self.runs.items()}
        )
        means = [self._mean(str(row[0]), samples) for row in table.rows]
        return table.with_column(
            "mean (95 % interval)", [mean and Number(mean.mean, interval=mean) for mean in means]
        )

    def _differences(self, name: str, bases: Mapping[Place, Runs]) -> Table:
        cells = {place: signed(self.runs[place].minus(base)) for place, base in bases.items()}
        samples = {place: paired(self.runs[place].sample, base.sample) for place, base in bases.items()}
        rows = dict.fromkeys(row for row, _ in bases)
        table = self.crossed(
            {(row, column): cells.get((row, column)) for row in rows for column in self.columns},
            f"Less {name}",
        )
        return table.with_column("mean", [signed(self._mean(row, samples)) for row in rows])

    def _mean(self, row: str, samples: Mapping[Place, Sample]) -> Interval | None:
        """Return the mean over tasks, if the columns are tasks and all of them have a sample."""
        return mean_of([samples.get((row, column)) for column in self.columns]) if self.by_task else None

    def _parts(self) -> Iterator[Table]:
        """Yield a table for each part: queries whose question, or output, is in the bank, and the others."""
        found: dict[tuple[str, str], dict[Place, np.ndarray]] = {}
        for place, runs in self.runs.items():
            for part, where in runs.parts().items():
                found.setdefault((place[1], part), {})[place] = where
        for (column, part), places in found.items():
            here = {place: self.runs[place].only(where) for place, where in places.items()}
            body: list[list[Value]] = [
                [row, Number(one.interval.mean, interval=one.interval)] for (row, _), one in here.items()
            ]
            table = Table(["", "value"], body, self._titled(f"{column}: {part}"))
            for name, bases in self.minus.items():
                less = [
                    signed(one.minus(bases[place].only(places[place]))) if place in bases else None
                    for place, one in here.items()
                ]
                table = table.with_column(f"− {name}", less)
            yield table

    def crossed(self, cells: Mapping[Place, Value], title: str = "") -> Table:
        """Return cells in the places of the runs.

        Args:
            cells: the places that have a value.
            title: what the cells are; by default the value.
        """
        return Table.crossed(cells, self._titled(title))

    def _titled(self, text: str) -> str:
        return ": ".join(part for part in (self.title, text) if part)


def costs_of(measured: Sequence[Measured]) -> Table:
    """Return what each row cost with the first seed, means over tasks.

    The columns are LM tokens before the first query, LM tokens to answer all queries, and the seconds and the device
    hours of both. Work that rows share is counted in each of them.

    Args:
        measured: the experiment's entries.
    """
    rows: dict[str, list[Measured]] = {}
    for one in measured:
        rows.setdefault(one.entry.row, []).append(one)
    body: list[list[Value]] = []
    for row, members in rows.items():
        records = [one.record for one in members]
        costs = [[it.preparing.tokens, it.answering.tokens, it.cost.seconds] for it in records]
        hours = [one.hours for one in members if one.hours is not None]
        known = len(hours) == len(members)
        means = [Number(mean, 0) for mean in np.mean(costs, axis=0).tolist()]
        body.append([row, *means, Number(float(np.mean(hours)), 2) if known else None])
    return Table(["", *COST_COLUMNS], body, "Cost, means over tasks")


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
