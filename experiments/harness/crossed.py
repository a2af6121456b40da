"""Tables of runs by their places: values, means over tasks, differences to baselines, parts of the queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ceil_jax.metrics.bootstrap import Interval, Sample, averaged_interval, paired
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Number, Table, Value, signed

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
