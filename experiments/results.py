"""Print the recorded runs as tables: values, means over tasks, paired differences, costs and parts
of the queries.

    python experiments/results.py --experiment table2 --minus EPR "EPR + MAP" "dense top-k"
    python experiments/results.py --experiment free_rows --tasks mtop geoquery --minus free
    python experiments/results.py --experiment learning_curve --minus "dense top-k" free "400 queries"
    python experiments/results.py --together first_runs table2 --data-dir DATA
    python experiments/results.py --add runs/new.jsonl --data-dir DATA

The file is one that --record of an experiment wrote, by default experiments/results.jsonl.
Intervals resample questions, or programs where a task's outputs are programs (`harness.programs`);
there every difference is printed twice, by query and with every program weighing the same, and a
claim must hold in both. Tasks that share rows are resampled as one, and an interval end that cannot
be told from zero is printed as "touches zero" (`harness.estimates`). --tasks takes some tasks, over
which the means then are.
--together takes two experiments that ran the same rows on two machines: it has the tables of each
on the queries that both answered, and of both as more seeds of one; the task's data say which
queries those are. --add adds another file's runs to this one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from harness.command import script
from harness.crossed import Crossed, Place
from harness.programs import by_program
from harness.results_file import RESULTS, Published, keep, read_results

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.metrics import METRICS
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Number
from ceil_jax.tasks.load import load_task
from ceil_jax.tasks.words import Overlap


def published(
    records: Sequence[Published], experiments: Sequence[str] = (), minus: Sequence[str] = ()
) -> str:
    """Return records as Markdown, with a section for each experiment and setting.

    Means, and intervals of differences, need records with statistics.

    Args:
        records: of a results file.
        experiments: names as in the file; by default all.
        minus: rows or columns that the others are compared with, where a table has them.

    Raises:
        UserError: no such experiment; a table with two runs in one place, or with different queries
            in a column.
    """
    parts = []
    for title, table in tables(records, experiments, minus):
        counts = {
            place: Number(runs.examples)
            for place, runs in table.runs.items()
            if runs.examples is not None
        }
        parts_of_table = [*table.tables()]
        if counts:
            parts_of_table.append(table.crossed(counts, "examples that fitted into a prompt, mean"))
        parts += [f"# {title}\n", *(part.markdown() for part in parts_of_table)]
        parts += [*_kept(table), _where(table)]
    return "\n".join(parts)


def tables(
    records: Sequence[Published], experiments: Sequence[str] = (), minus: Sequence[str] = ()
) -> list[tuple[str, Crossed]]:
    """Return a title and a table for each experiment and setting; arguments and errors as for
    `published`."""
    known = list(dict.fromkeys(record.experiment for record in records))
    for name in experiments:
        if name not in known:
            raise unknown_name("experiment", name, known)
    groups: dict[str, list[Published]] = {}
    for record in records:
        if record.experiment in (experiments or known):
            groups.setdefault(_title(record), []).append(record)
    return [(title, _crossed(title, members, minus)) for title, members in groups.items()]


def _title(record: Published) -> str:
    """Return the title of a record's table: of all tasks if they are the columns, else of one
    task."""
    by_task = record.column == record.task
    name = record.experiment if by_task else f"{record.experiment} on {record.task}"
    shots = f"{record.config['shots']} examples a prompt, " if by_task else ""
    return f"{name} ({record.lm}, {shots}encoder {record.config['encoder']})"


def _crossed(title: str, records: Sequence[Published], minus: Sequence[str]) -> Crossed:
    """Return the table for records under one title."""
    places: dict[Place, list[Published]] = {}
    for record in records:
        here = places.setdefault((record.row, record.column), [])
        if any(other.seed == record.seed for other in here):
            raise UserError(
                f"{title}: {record.row} on {record.column} is there twice, with other settings; "
                "keep them in two files"
            )
        here.append(record)
    runs = {place: Runs(members) for place, members in places.items()}
    for (row, column), runs_of_place in runs.items():
        if (
            runs_of_place.known
            and len(
                {(record.texts, record.metric, record.queries) for record in runs_of_place.records}
            )
            > 1
        ):
            raise UserError(f"{title}: seeds of {row} on {column} saw different queries")
    return Crossed(runs, {other: _compared(title, runs, other) for other in minus})


def _compared(title: str, runs: Mapping[Place, Runs], other: str) -> dict[Place, Runs]:
    """Return the runs with which others are compared, by their places: a row in the same column, or
    in its only column (as for an untrained row next to numbers of training queries); or, if a
    column has that name, the same row in it."""
    columns = [column for row, column in runs if row == other]
    bases = {}
    for (row, column), runs_of_place in runs.items():
        base = runs.get((other, column)) or runs.get((row, other))
        if base is None and len(columns) == 1:
            base = runs[other, columns[0]]
        if (
            base is None
            or base is runs_of_place
            or row == other
            or not (runs_of_place.known and base.known)
        ):
            continue
        if runs_of_place.record.texts == base.record.texts:
            bases[row, column] = base
        elif (other, column) in runs:
            raise UserError(f"{title}: {row} and {other} saw different queries of {column}")
    return bases


def _kept(table: Crossed) -> list[str]:
    """Return a line for each row whose trained runs gave exactly the answers of a baseline, as when
    training was rejected and its start was kept."""
    lines = []
    for name, bases in table.minus.items():
        for row in dict.fromkeys(row for row, _ in bases):
            pairs = [
                (ours.statistics, theirs.statistics)
                for (of_row, task), base in bases.items()
                if of_row == row
                for ours, theirs in zip(table.runs[row, task].records, base.records, strict=False)
                if ours.seed is not None and ours.statistics is not None
            ]
            same = sum(np.array_equal(ours, other) for ours, other in pairs if other is not None)
            if same:
                lines.append(f"{row} has the answers of {name} in {same} of {len(pairs)} runs.\n")
    return lines


def _where(table: Crossed) -> str:
    """Return a line on the number of queries, the devices and the dates."""
    records = [record for runs in table.runs.values() for record in runs.records]
    where = sorted(
        {f"{record.device}, {record.date}" for record in records if isinstance(record, Published)}
    )
    first = {column: runs.queries for (_, column), runs in reversed(list(table.runs.items()))}
    counts = [f"{first[column]} of {column}" for column in table.columns]
    return (
        f"Queries: {', '.join(counts) if table.by_task else records[0].queries}. "
        f"{'; '.join(where)}.\n"
    )


def together(
    records: Sequence[Published], first: str, again: str, data_dir: Path | None = None
) -> list[Published]:
    """Return the runs that two experiments have in common, cut to the queries that both answered.

    They stand under each experiment's name, and once more under both names, as further seeds of
    one.

    Args:
        records: of a results file.
        first: an experiment.
        again: another one, with the same rows, tasks, LM, numbers of examples and seeds.
        data_dir: where the tasks are whose queries are not as many in both.

    Raises:
        UserError: there is no such experiment, or the two have no run in common or other queries.
    """
    tables(records, (first, again))

    def runs_of(experiment: str) -> dict[tuple[str, str, str, int, int | None], Published]:
        return {
            _run(record): record
            for record in records
            if record.experiment == experiment and record.statistics is not None
        }

    of_first = runs_of(first)
    of_again = runs_of(again)
    common = [run for run in of_first if run in of_again]
    if not common:
        raise UserError(
            f"{first} and {again} have no row, task, LM, number of examples and seed in common"
        )

    @cache
    def drawn(task: str, count: int) -> list[str]:
        return [query.id for query in load_task(task, data_dir, limit=count).validation]

    def cut(record: Published, other: Published) -> Published:
        if record.queries == other.queries:
            if record.texts != other.texts:
                raise UserError(f"{first} and {again} asked different queries of {record.task}")
            return record
        both = {*drawn(other.task, other.queries)}
        where = np.array([query in both for query in drawn(record.task, record.queries)])
        assert record.statistics is not None
        assert record.overlap is not None
        part = record.statistics[where]
        count = int(where.sum())
        value = 100 * float(METRICS[record.metric].from_sums(part.sum(axis=0), count))
        overlap = Overlap(*(column[where] for column in record.overlap))
        return replace(
            record, statistics=part, queries=count, value=value, overlap=overlap, texts="cut"
        )

    before = [cut(of_first[run], of_again[run]) for run in common]
    after = [cut(of_again[run], of_first[run]) for run in common]
    apart = [
        replace(record, experiment=f"{record.experiment}, queries of both")
        for record in before + after
    ]
    # the repetition's seeds are others, also where nothing was trained
    further = [replace(record, seed=1000 + (record.seed or 0)) for record in after]
    return apart + [
        replace(record, experiment=f"{first} and {again}", texts="cut")
        for record in before + further
    ]


def _run(record: Published) -> tuple[str, str, str, int, int | None]:
    return record.row, record.task, record.lm, record.config["shots"], record.seed


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", type=Path, default=RESULTS)
    parser.add_argument(
        "--experiment",
        nargs="+",
        default=[],
        help="only these experiments, such as table2; default: all",
    )
    parser.add_argument("--tasks", nargs="+", default=[], help="only these; default: all")
    parser.add_argument(
        "--minus", nargs="+", default=["EPR", "dense top-k"], help="rows or columns to compare with"
    )
    parser.add_argument(
        "--together",
        nargs=2,
        metavar=("FIRST", "AGAIN"),
        help="pool two experiments: a run and its repetition",
    )
    parser.add_argument("--add", type=Path, help="another such file, whose runs are added")
    parser.add_argument(
        "--data-dir", type=Path, help="a folder of datasets; default: the hub or the package"
    )
    options = parser.parse_args(arguments)
    if options.add:
        keep(options.file, (by_program(record, options.data_dir) for record in _read(options.add)))
        return
    records = _read(options.file)
    if options.together:
        first, again = options.together
        records = together(records, first, again, options.data_dir)
    if options.tasks:
        records = _of_tasks(records, options.tasks)
    print(published(records, options.experiment, options.minus))


def _of_tasks(records: Sequence[Published], tasks: Sequence[str]) -> list[Published]:
    known = list(dict.fromkeys(record.task for record in records))
    for name in tasks:
        if name not in known:
            raise unknown_name("task", name, known)
    return [record for record in records if record.task in tasks]


def _read(file: Path) -> list[Published]:
    """Return the records in a file. A file without records is a UserError."""
    if not file.is_file():
        raise UserError(f"{file}: no such file; name one that --record wrote")
    if not (records := read_results(file)):
        raise UserError(f"{file}: no results in it")
    return records


if __name__ == "__main__":
    script(main)
