"""Published records: written from an experiment's runs, and shown as tables without a model or data."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.metrics.bootstrap import Interval, Sample, averaged_interval, bootstrap_interval, paired
from ceil_jax.pipeline.evaluate import Evaluation
from ceil_jax.pipeline.records import StoredRecord, read_record
from ceil_jax.pipeline.results_file import PublishedRecord, device, device_hours, read_results, sample_of
from ceil_jax.report.compare import COST_COLUMNS
from ceil_jax.report.grid import Cell, Grid, Measured
from ceil_jax.report.table import Number, Table, Value, signed
from ceil_jax.store.rows import Cost
from ceil_jax.store.stage import DONE

Place = tuple[str, str]
"""(row, column) of a table."""


def records_of(grid: Grid, measured: Sequence[Measured], experiment: str) -> Iterator[PublishedRecord]:
    """Yield a record for every run behind an experiment's numbers.

    Args:
        grid: the runs.
        measured: the experiment's entries.
        experiment: its name.
    """
    for one in measured:
        for seed in one.seeds:
            cell, evaluation, found = _run(grid, one, seed)
            interval = evaluation.interval.percent()
            written = (found.root / found.name / DONE).stat().st_mtime
            yield PublishedRecord(
                **{name: getattr(found, name) for name in ("name", "task", "method", "metric", "config")},
                **{name: getattr(found, name) for name in ("queries", "bank", "texts")},
                lm=one.lm,
                value=round(100 * evaluation.value, 3),
                trade_off=found.trade_off,
                examples=round(evaluation.examples, 2),
                cost=Cost(round(found.cost.seconds, 1), found.cost.tokens),
                experiment=experiment,
                row=one.entry.row,
                column=one.entry.column,
                trained_by=tuple((other.task, other.lm) for other in cell.trained_by),
                seed=seed if one.entry.cell.trains else None,
                low=round(interval.low, 3),
                high=round(interval.high, 3),
                device=device(),
                date=datetime.datetime.fromtimestamp(written, datetime.UTC).date().isoformat(),
                statistics=evaluation.statistics,
                overlap=evaluation.overlap,
            )


def costs_of(grid: Grid, measured: Sequence[Measured]) -> Table:
    """Return what each row cost with the first seed, means over tasks.

    The columns are LM tokens before the first query, LM tokens to answer all queries, and the seconds and the device
    hours of both. Work that rows share is counted in each of them.

    Args:
        grid: the runs.
        measured: the experiment's entries.
    """
    rows: dict[str, list[tuple[float, ...]]] = {}
    for one in measured:
        *_, found = _run(grid, one, one.seeds[0])
        rows.setdefault(one.entry.row, []).append(
            (
                *(found.preparing.tokens, found.answering.tokens, found.cost.seconds),
                device_hours(found.cost.seconds, found.device or device()),
            )
        )
    digits = (0, 0, 0, 2)
    body: list[list[Value]] = [
        [row, *map(Number, np.mean(costs, axis=0).tolist(), digits)] for row, costs in rows.items()
    ]
    return Table(["", *COST_COLUMNS], body, "Cost, means over tasks")


def _run(grid: Grid, one: Measured, seed: int) -> tuple[Cell, Evaluation, StoredRecord]:
    cell = one.entry.cell.seeded(seed).essential()
    evaluation = grid.evaluate(cell)
    found = read_record(cell.config.out, evaluation.run)
    assert found is not None, f"{evaluation.run} has just been written"
    return cell, evaluation, found


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
    return "\n".join(group.markdown(minus) for group in _groups(file, experiments))


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
        {"title": group.title, "tables": [table.data() for table in group.tables(minus)]}
        for group in _groups(file, experiments)
    ]


def _groups(file: Path, experiments: Sequence[str]) -> list[_Group]:
    if not file.is_file():
        raise UserError(f"{file}: no such file; name one that --record wrote")
    records = read_results(file)
    if not records:
        raise UserError(f"{file}: no results in it")
    known = list(dict.fromkeys(record.experiment for record in records))
    for name in experiments:
        if name not in known:
            raise unknown_name("experiment", name, known)
    groups: dict[str, list[PublishedRecord]] = {}
    for record in records:
        if record.experiment in (experiments or known):
            groups.setdefault(_title(record), []).append(record)
    return [_Group(title, members) for title, members in groups.items()]


def _title(record: PublishedRecord) -> str:
    """Return the title of a record's table: of all tasks if they are the columns, else of one task."""
    by_task = record.column == record.task
    name = record.experiment if by_task else f"{record.experiment} on {record.task}"
    shots = f"{record.config['shots']} examples a prompt, " if by_task else ""
    return f"{name} ({record.lm}, {shots}encoder {record.config['encoder']})"


class _Group:
    """The records under one title, by their places in its table."""

    def __init__(self, title: str, records: Sequence[PublishedRecord]) -> None:
        self.title, self.records = title, records
        self.runs: dict[Place, list[PublishedRecord]] = {}
        for record in records:
            here = self.runs.setdefault((record.row, record.column), [])
            if any(other.seed == record.seed for other in here):
                raise UserError(
                    f"{title}: {record.row} on {record.column} is there twice, with other settings; "
                    "keep them in two files"
                )
            here.append(record)
        self.rows, self.columns = (list(dict.fromkeys(place[i] for place in self.runs)) for i in (0, 1))
        self.by_task = all(record.column == record.task for record in records)
        self.samples = {place: self._sample(runs) for place, runs in self.runs.items()}
        self.parts = {
            (row, column): shared.parts()
            for (row, column), runs in self.runs.items()
            if (shared := runs[0].overlap) is not None
        }

    def _sample(self, runs: Sequence[PublishedRecord]) -> Sample | None:
        sample_known = all(run.statistics is not None for run in runs)
        if sample_known and len({(run.texts, run.metric, run.queries) for run in runs}) > 1:
            raise UserError(f"{self.title}: seeds of {runs[0].row} on {runs[0].column} saw different queries")
        return sample_of(runs)

    def markdown(self, minus: Sequence[str]) -> str:
        return "\n".join(
            [f"# {self.title}\n", *(table.markdown() for table in self.tables(minus)), self._where()]
        )

    def tables(self, minus: Sequence[str]) -> Iterator[Table]:
        """Yield the values, the differences to the rows that `minus` names, and the costs."""
        means = [self._mean(self.samples.get((row, column)) for column in self.columns) for row in self.rows]
        values = Table.crossed({place: _value(runs) for place, runs in self.runs.items()})
        yield values.with_column(
            "mean (95 % interval)", [mean and Number(mean.mean, interval=mean) for mean in means]
        )
        for other in minus:
            pairs = {
                row: [self._pair(row, other, column) for column in self.columns]
                for row in self.rows
                if row != other
            }
            pairs = {row: found for row, found in pairs.items() if any(found)}
            if pairs:
                body = [[row, *map(_difference, found)] for row, found in pairs.items()]
                less = Table(["", *self.columns], body, f"Less {other}")
                yield less.with_column("mean", [signed(self._mean(found)) for found in pairs.values()])
        yield from self._tables_of_parts(minus)
        costs = {place: _cost(runs[0]) for place, runs in self.runs.items()}
        title = "Cost of the first seed, shared work included: LM tokens, seconds, GPU-hours or core-hours"
        yield Table.crossed(costs, title)
        known = {}
        for place, runs in self.runs.items():
            counts = [run.examples for run in runs if run.examples is not None]
            if len(counts) == len(runs):
                known[place] = Number(float(np.mean(counts)))
        if known:
            yield Table.crossed(known, "#ICE: examples that fitted into a prompt, mean")

    def _tables_of_parts(self, minus: Sequence[str]) -> Iterator[Table]:
        """Yield values and differences on queries whose question, or output, is in the bank, and on the others."""
        found: dict[tuple[str, str], dict[str, Sample]] = {}
        for (row, column), parts in self.parts.items():
            for part, where in parts.items():
                sample = sample_of(self.runs[row, column], where)
                if sample is not None:
                    found.setdefault((column, part), {})[row] = sample
        for (column, part), samples in found.items():
            values = [bootstrap_interval(*sample).percent() for sample in samples.values()]
            body: list[list[Value]] = [
                [row, Number(it.mean, interval=it)] for row, it in zip(samples, values, strict=True)
            ]
            table = Table(["", "value"], body, f"{column}: {part}")
            for other in minus:
                less = [
                    _difference(paired(sample, samples[other])) if other in samples and other != row else None
                    for row, sample in samples.items()
                ]
                table = table.with_column(f"− {other}", less)
            yield table

    def _mean(self, found: Iterable[Sample | None]) -> Interval | None:
        """Return the mean over tasks, if the columns are tasks and all of them have a sample."""
        there = [sample for sample in found if sample is not None]
        full = self.by_task and len(there) == len(self.columns) > 1
        return averaged_interval(there).percent() if full else None

    def _pair(self, row: str, other: str, column: str) -> Sample | None:
        ours, theirs = self.samples.get((row, column)), self.samples.get((other, column))
        if ours is None or theirs is None:
            return None
        if self.runs[row, column][0].texts != self.runs[other, column][0].texts:
            raise UserError(f"{self.title}: {row} and {other} saw different queries of {column}")
        return paired(ours, theirs)

    def _where(self) -> str:
        """Return a line on the queries, the devices and the dates."""
        where = sorted({f"{record.device}, {record.date}" for record in self.records})
        first = {column: runs[0] for (_, column), runs in reversed(self.runs.items())}
        asked = [f"{first[column].queries} of {column}" for column in self.columns]
        return (
            f"Queries: {', '.join(asked) if self.by_task else self.records[0].queries}. {'; '.join(where)}.\n"
        )


def _difference(pair: Sample | None) -> Number | None:
    return None if pair is None else signed(bootstrap_interval(*pair).percent())


def _value(runs: Sequence[PublishedRecord]) -> Number:
    values = [run.value for run in runs]
    return Number(float(np.mean(values)), sd=float(np.std(values, ddof=1)) if len(values) > 1 else None)


def _cost(run: PublishedRecord) -> str:
    elsewhere = " + training elsewhere" if run.trained_by else ""
    hours = device_hours(run.cost.seconds, run.device)
    return f"{run.cost.tokens:,}, {run.cost.seconds:,.0f}, {hours:.2f}{elsewhere}"
