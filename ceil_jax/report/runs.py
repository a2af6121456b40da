"""The runs of one method that differ in their seed of training: value, interval, differences, parts of the queries.

Every table of results is made from these, whether the records come from runs that have just ended, from a folder of
stages or from a results file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ceil_jax.distributed.machine import device_hours
from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import (
    Interval,
    Sample,
    averaged_interval,
    bootstrap_interval,
    by_group,
    metric_interval,
    over_seeds,
    paired,
)
from ceil_jax.pipeline.records import Record
from ceil_jax.report.table import Number, Table, Value, signed

COST_COLUMNS = ("LM tokens to prepare", "LM tokens to answer", "seconds", "device hours")
"""The columns of costs in a table of methods; device hours are GPU-hours, or core-hours without a GPU."""

Place = tuple[str, str]
"""(row, column) of a table."""


@dataclass(frozen=True, eq=False)
class Runs:
    """One method's runs on the same queries, one for each seed of training; numbers are in percent of its metric."""

    records: Sequence[Record]
    where: np.ndarray | None = field(default=None, repr=False)
    """bool [N]: the part of the queries that the numbers are of; None for all of them."""
    paper: float | None = None
    """The paper's number."""

    @property
    def record(self) -> Record:
        """The run of the first seed."""
        return self.records[0]

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return self.record.metric

    @property
    def lm(self) -> str:
        """The name of the LM."""
        return self.record.lm

    @property
    def queries(self) -> int:
        """The number of queries."""
        return self.record.queries if self.where is None else int(self.where.sum())

    @property
    def known(self) -> bool:
        """Whether all runs have statistics, which intervals, differences and parts are computed from."""
        return all(record.statistics is not None for record in self.records)

    @property
    def statistics(self) -> np.ndarray:
        """float [S, N, s]: statistics of each query, for each of S seeds."""
        found = np.stack([record.statistics for record in self.records if record.statistics is not None])
        return found if self.where is None else found[:, self.where]

    @property
    def questions(self) -> np.ndarray | None:
        """int [N], equal numbers for equal questions; None if they are unknown."""
        questions = self.record.questions
        return questions if questions is None or self.where is None else questions[self.where]

    @property
    def values(self) -> tuple[float, ...]:
        """The metric for each seed."""
        if self.where is None:
            return tuple(record.value for record in self.records)
        value = metric_named(self.metric).from_sums
        return tuple(100 * float(value(one.sum(axis=0), self.queries)) for one in self.statistics)

    @property
    def value(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.values))

    @property
    def sd(self) -> float | None:
        """Standard deviation over seeds (n − 1); None for one seed."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    @property
    def examples(self) -> float | None:
        """Mean number of examples that fitted into a prompt (#ICE), over all queries and seeds; None if unknown."""
        found = [record.examples for record in self.records if record.examples is not None]
        return float(np.mean(found)) if len(found) == len(self.records) else None

    @cached_property
    def sample(self) -> Sample:
        """The statistics of the distinct questions, with the mean of the metric over seeds."""
        return by_group(self._by_query, self.questions)

    @property
    def _by_query(self) -> Sample:
        return over_seeds(self.statistics, metric_named(self.metric).from_sums)

    @cached_property
    def interval(self) -> Interval:
        """The mean over seeds, with the 95 % interval of that mean over resampled questions and seeds."""
        return metric_interval(self._by_query, self.questions).percent()

    def minus(self, other: Runs) -> Interval:
        """Return the difference from another method on the same queries, in points, by paired bootstrap."""
        return bootstrap_interval(*paired(self.sample, other.sample)).percent()

    def parts(self) -> Mapping[str, np.ndarray]:
        """Return the parts of the queries that are worth a number of their own: name → bool [N]."""
        return {} if self.record.overlap is None or not self.known else self.record.overlap.parts()

    def only(self, where: np.ndarray) -> Runs:
        """Return the numbers on some of the queries; bool [N] says on which."""
        return Runs(self.records, where)

    @property
    def hours(self) -> float | None:
        """Device hours of the first seed; None if the device is unknown."""
        return device_hours(self.record.cost.seconds, self.record.device) if self.record.device else None

    def costs(self) -> list[Value]:
        """Return the cells of COST_COLUMNS, for the first seed."""
        cost = self.record.cost
        hours = None if self.hours is None else Number(self.hours, 2)
        return [self.record.preparing.tokens, self.record.answering.tokens, Number(cost.seconds, 0), hours]


@dataclass(frozen=True)
class Difference:
    """The difference of two methods on the same queries."""

    better: str
    worse: str
    interval: Interval
    """The difference in percentage points, with its 95 % interval."""

    @property
    def certain(self) -> bool:
        """Whether its interval has a width and leaves out 0."""
        _, low, high = self.interval
        return low < high and (low > 0 or high < 0)

    def upwards(self) -> Difference:
        """Return the same difference, the higher method first."""
        mean, low, high = self.interval
        return self if mean >= 0 else Difference(self.worse, self.better, Interval(-mean, -high, -low))

    def __str__(self) -> str:
        return f"{self.better} − {self.worse}: {signed(self.interval)} points"


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
        """Return the mean over tasks, resampled independently; None unless all columns are tasks with a sample."""
        there = [samples[row, column] for column in self.columns if (row, column) in samples]
        known = self.by_task and len(there) == len(self.columns) > 1
        return averaged_interval(there).percent() if known else None

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
