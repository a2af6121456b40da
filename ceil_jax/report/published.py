"""Published records: written from an experiment's runs, and shown as tables without a model or data."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.pipeline.records import Record
from ceil_jax.pipeline.results_file import device, device_hours, read_results
from ceil_jax.report.experiment_table import Crossed, Place
from ceil_jax.report.grid import Measured
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Number, Table
from ceil_jax.store.stage import DONE


def records_of(measured: Sequence[Measured], experiment: str) -> Iterator[Record]:
    """Yield a record with its place in a results file for every run behind an experiment's numbers.

    Args:
        measured: the experiment's entries.
        experiment: its name.
    """
    for one in measured:
        for record in one.records:
            interval = Runs((record,)).interval
            written = (record.root / record.name / DONE).stat().st_mtime
            yield replace(
                record,
                experiment=experiment,
                row=one.entry.row,
                column=one.entry.column,
                low=interval.low,
                high=interval.high,
                device=record.device or device(),
                date=datetime.datetime.fromtimestamp(written, datetime.UTC).date().isoformat(),
            )


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
