"""Print the recorded runs as tables: values, means over tasks, paired differences, parts of the queries and costs.

    python experiments/results.py --experiment table2 --minus EPR "EPR + MAP" "dense top-k"

The file is one that --record of an experiment wrote, by default experiments/results.jsonl.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.command import script
from harness.crossed import Crossed, Place
from harness.results_file import RESULTS, read_results

from ceil_jax.distributed.machine import device_hours
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.pipeline.records import Record
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Number, Table


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
        for title, table in tables(file, experiments, minus)
        for line in (f"# {title}\n", *(one.markdown() for one in all_of(table)), _where(table))
    )


def tables(
    file: Path, experiments: Sequence[str] = (), minus: Sequence[str] = ()
) -> list[tuple[str, Crossed]]:
    """Return a title and a table for each experiment and setting; arguments and errors as for `published`."""
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


def all_of(table: Crossed) -> Iterator[Table]:
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", type=Path, default=RESULTS)
    parser.add_argument(
        "--experiment", nargs="+", default=[], help="only these, such as table2; default: all"
    )
    parser.add_argument(
        "--minus", nargs="+", default=["EPR", "dense top-k"], help="rows to compare others with"
    )
    options = parser.parse_args(arguments)
    print(published(options.file, options.experiment, options.minus))


if __name__ == "__main__":
    script(main)
