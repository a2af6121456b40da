"""Tables of recorded runs: values, means over tasks, differences to baselines, costs, and parts of the queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ceil_jax.metrics import METRICS
from ceil_jax.metrics.bootstrap import (
    Interval,
    Sample,
    bootstrap_interval,
    over_seeds,
    paired,
)
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Number, Table, Value
from harness.estimates import Estimate, estimate
from harness.results_file import Published

Place = tuple[str, str]
"""A place in a table, as (row, column)."""

SHARED = 0.75
"""The share of distinct programs among queries below which programs are weighted equally."""


class ByProgram(Runs):
    """Runs in which every program has the same weight, however many queries have it."""

    @cached_property
    def sample(self) -> Sample:
        """The statistics of programs instead of queries: for each program, the mean over its queries."""
        assert self.questions is not None
        values, statistic = over_seeds(self.statistics, METRICS[self.record.metric].from_sums)
        _, place, counts = np.unique(self.questions, return_inverse=True, return_counts=True)
        sums = np.zeros((len(counts), values.shape[1]))
        np.add.at(sums, place, values)
        return Sample(sums / counts[:, None], statistic)

    @cached_property
    def interval(self) -> Interval:
        """The mean over programs and seeds, with its 95 % interval."""
        return bootstrap_interval(*self.sample).percent()


def alike(runs: Runs) -> Runs:
    """Return the runs with equal weight for all programs if queries share programs; other runs are unchanged."""
    groups = runs.questions if runs.known else None
    shared = groups is not None and len(np.unique(groups)) < SHARED * runs.queries
    return ByProgram(runs.records, label=runs.label, paper=runs.paper) if shared else runs


@dataclass(frozen=True)
class Crossed:
    """The runs of a table by their places, as (row, column)."""

    runs: Mapping[Place, Runs]
    minus: Mapping[str, Mapping[Place, Runs]]
    """The runs with which those in some places are compared, by the name of the baseline."""
    title: str = ""
    """The title of the values, with which the other titles begin."""

    @property
    def by_task(self) -> bool:
        """Whether the columns are tasks; rows then have means over tasks."""
        return all(runs.record.task == column for (_, column), runs in self.runs.items())

    @property
    def columns(self) -> list[str]:
        """The columns in the order in which they first appear."""
        return list(dict.fromkeys(column for _, column in self.runs))

    def tables(self) -> Iterator[Table]:
        """Yield the tables: values, and differences to each baseline; both again with equal weight
        for all programs, if queries share programs; costs; values and differences on parts of the
        queries."""
        yield from self._compared()
        if any(isinstance(alike(runs), ByProgram) for runs in self.runs.values()):
            yield from self._alike()._compared(values=False)
        yield self.costs()
        yield from self._parts()

    def _alike(self) -> Crossed:
        """Return the same table with equal weight for all programs."""
        minus = {
            name: {place: alike(base) for place, base in bases.items()}
            for name, bases in self.minus.items()
        }
        runs = {place: alike(runs_of_place) for place, runs_of_place in self.runs.items()}
        return Crossed(runs, minus, self._titled("every program weighs the same"))

    def _compared(self, values: bool = True) -> Iterator[Table]:
        if values:
            yield self._values()
        for name, bases in self.minus.items():
            if bases:
                yield self._differences(name, bases)

    def _values(self) -> Table:
        table = self.crossed(
            {
                place: Number(runs.value, sd=runs.sd, paper=runs.paper)
                for place, runs in self.runs.items()
            }
        )
        samples = {place: runs.sample for place, runs in self.runs.items() if runs.known}
        means = [self.mean(str(row[0]), samples) for row in table.rows]
        return table.with_column(
            "mean (95 % interval)",
            [mean and Number(mean.interval.mean, interval=mean.interval) for mean in means],
        )

    def _differences(self, name: str, bases: Mapping[Place, Runs]) -> Table:
        samples = {
            place: paired(self.runs[place].sample, base.sample) for place, base in bases.items()
        }
        rows = dict.fromkeys(row for row, _ in bases)
        cells: dict[Place, Value] = {
            place: estimate({place[1]: sample}).difference() for place, sample in samples.items()
        }
        table = self.crossed(
            {(row, at): cells.get((row, at)) for row in rows for at in self.columns}, f"Less {name}"
        )
        means = {row: self.mean(row, samples) for row in rows}
        table = table.with_column("mean", [mean and mean.difference() for mean in means.values()])
        return table.with_column(
            "without what carries most of it",
            [self._without(row, mean, samples) for row, mean in means.items()],
        )

    def mean(self, row: str, samples: Mapping[Place, Sample], without: str = "") -> Estimate | None:
        """Return the mean over tasks; None unless all columns are tasks that have a sample."""
        there = {
            task: samples[row, task]
            for task in self.columns
            if (row, task) in samples and task != without
        }
        known = self.by_task and len(there) == len(self.columns) - bool(without) > 1
        return estimate(there) if known else None

    def _without(
        self, row: str, mean: Estimate | None, samples: Mapping[Place, Sample]
    ) -> str | None:
        """Return the mean without the task that contributes more than half of it; None if no task does."""
        if not mean or not mean.interval.mean:
            return None
        shares = {
            at: bootstrap_interval(*samples[row, at], resamples=1).mean / mean.interval.mean
            for at in self.columns
        }
        most = max(shares, key=shares.__getitem__)
        rest = self.mean(row, samples, most) if 100 * shares[most] > len(shares) / 2 else None
        return rest and f"{rest.difference()}, without {most}"

    def costs(self) -> Table:
        """Return a table of the first seed's costs, averaged over columns; work that rows share is
        counted in each.

        Rows that lack a column are left out.
        """
        body: list[list[Value]] = []
        for row in dict.fromkeys(row for row, _ in self.runs):
            members = [runs for (name, _), runs in self.runs.items() if name == row]
            if len(members) < len(self.columns):
                continue
            costs = [
                (runs.record.cost.tokens, runs.record.cost.seconds, runs.hours or np.nan)
                for runs in members
            ]
            tokens, seconds, hours = np.mean(costs, axis=0).tolist()
            first = members[0].record
            elsewhere = (
                ", training elsewhere" if isinstance(first, Published) and first.trained_by else ""
            )
            known = None if np.isnan(hours) else Number(hours, 2)
            body.append([f"{row}{elsewhere}", Number(tokens, 0), Number(seconds, 0), known])
        return Table(
            ["", "LM tokens", "seconds", "GPU or core hours"],
            body,
            self._titled("Cost of the first seed, averaged"),
        )

    def _parts(self) -> Iterator[Table]:
        """Yield a table of values and differences for each part of a task's queries, and one with
        equal weight for all programs."""
        views: dict[tuple[str, str], dict[Place, Callable[[Runs], Runs]]] = {}
        for place, runs in self.runs.items():
            views_of_place: dict[str, Callable[[Runs], Runs]] = {
                part: partial(Runs.only, where=where) for part, where in runs.parts().items()
            }
            if isinstance(alike(runs), ByProgram):
                views_of_place["every program weighs the same"] = alike
            for part, view in views_of_place.items():
                views.setdefault((place[1], part), {})[place] = view
        for (column, part), places in views.items():
            here = {place: view(self.runs[place]) for place, view in places.items()}
            body: list[list[Value]] = [
                [row, Number(runs_of_part.interval.mean, interval=runs_of_part.interval)]
                for (row, _), runs_of_part in here.items()
            ]
            table = Table(["", "value"], body, self._titled(f"{column}: {part}"))
            for name, bases in self.minus.items():
                less: list[Value] = []
                for place, runs_of_part in here.items():
                    if place in bases:
                        base = places[place](bases[place])
                        pair = paired(runs_of_part.sample, base.sample)
                        less.append(estimate({column: pair}).difference())
                    else:
                        less.append(None)
                table = table.with_column(f"− {name}", less)
            yield table

    def crossed(self, cells: Mapping[Place, Value], title: str = "") -> Table:
        """Return a table with cells in the places of the runs.

        Args:
            cells: the places that have a value.
            title: what the cells are; by default the value.
        """
        rows = list(dict.fromkeys(row for row, _ in cells))
        columns = list(dict.fromkeys(column for _, column in cells))
        body: list[list[Value]] = [
            [row, *(cells.get((row, column)) for column in columns)] for row in rows
        ]
        return Table(["", *columns], body, self._titled(title))

    def _titled(self, text: str) -> str:
        return ": ".join(part for part in (self.title, text) if part)
