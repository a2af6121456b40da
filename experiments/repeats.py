"""Recorded runs beside their repetition on another machine: what moves although nothing was changed.

    python experiments/repeats.py first_runs table2 --data-dir DATA

A repetition is a run with the same row, task, LM, number of examples and seed, recorded under another experiment. The
table has, for every row, the metric of every seed on both machines and how many queries got another score; the second
has the differences from --minus on each, and over the seeds of both together. Where one of the two answered more
queries, those of the smaller draw are compared, which are among those of the larger; which they are says the task's
data. With --by-program, intervals resample programs (gold outputs without their entities) in place of questions: a
program that many queries share is one observation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness.command import script
from harness.results_file import RESULTS, read_results
from table3 import template_of

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import (
    Sample,
    averaged_interval,
    bootstrap_interval,
    by_group,
    over_seeds,
    paired,
)
from ceil_jax.pipeline.records import Record
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Table, Value, signed
from ceil_jax.tasks.load import load_task
from ceil_jax.tasks.words import overlap


class Repeated(NamedTuple):
    """One row on one task, run twice with the same seeds."""

    row: str
    task: str
    first: Runs
    again: Runs
    programs: np.ndarray | None = None
    """int [N]: the number of each query's program, where programs are resampled in place of questions."""

    @property
    def setting(self) -> tuple[str, int]:
        """The LM and the number of examples; rows are compared with rows of the same."""
        return self.first.lm, self.first.record.config["shots"]

    @property
    def samples(self) -> tuple[Sample, Sample, Sample]:
        """The first run, its repetition, and both as runs with as many seeds together."""
        both = np.concatenate([self.first.statistics, self.again.statistics])
        statistic = metric_named(self.first.metric).from_sums
        together = self.first.questions if self.programs is None else self.programs
        parts = (self.first.statistics, self.again.statistics, both)
        first, again, six = (by_group(over_seeds(part, statistic), together) for part in parts)
        return first, again, six

    @property
    def changed(self) -> list[int]:
        """For every seed the number of queries with another score."""
        differs = (self.first.statistics != self.again.statistics).any(axis=2)
        return [int(count) for count in differs.sum(axis=1)]


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", help="the experiment that was run first")
    parser.add_argument("again", help="the experiment with its repetition")
    parser.add_argument("--minus", default="EPR", help="the row that the others are compared with")
    parser.add_argument("--tasks", nargs="+", help="only these tasks; default: all that both have")
    parser.add_argument("--by-program", action="store_true", help="resample programs, not questions")
    parser.add_argument("--data-dir", type=Path, help="a folder of datasets; default: the hub or the package")
    parser.add_argument("--results", type=Path, default=RESULTS, help="a file that --record wrote")
    return parser.parse_args(argv)


def repeated(
    records: Sequence[Record], first: str, again: str, data_dir: Path | None = None
) -> list[Repeated]:
    """Return the rows that are in both experiments, on the queries that both answered.

    Args:
        records: of a results file.
        first: an experiment.
        again: another one.
        data_dir: where the tasks are whose queries were not as many in both.

    Raises:
        UserError: there is no such experiment, or the two have no run in common or other queries.
    """
    known = list(dict.fromkeys(record.experiment for record in records))
    for name in (first, again):
        if name not in known:
            raise unknown_name("experiment", name, known)
    before, after = (
        {_run(one): one for one in records if one.experiment == name and one.statistics is not None}
        for name in (first, again)
    )
    places: dict[tuple[str, str, str, int], list[tuple[Record, Record]]] = {}
    for run, record in before.items():
        if run in after:
            places.setdefault(run[:-1], []).append((record, after[run]))
    if not places:
        raise UserError(f"{first} and {again} have no row, task, LM, number of examples and seed in common")
    shared = cache(partial(_shared, data_dir))
    found = []
    for (row, task, *_), pairs in places.items():
        sides = [Runs(side) for side in zip(*pairs, strict=True)]
        one, other = (side.record for side in sides)
        if one.queries == other.queries and one.texts != other.texts:
            raise UserError(f"{first} and {again} asked different queries of {task}")
        where = shared(task, *(side.queries for side in sides))
        found.append(Repeated(row, task, *(side.only(kept) for side, kept in zip(sides, where, strict=True))))
    return found


def _run(record: Record) -> tuple[str, str, str, int, int | None]:
    return record.row, record.task, record.lm, record.config["shots"], record.seed


def _shared(data_dir: Path | None, task: str, *counts: int) -> list[np.ndarray]:
    """Return which queries of draws of these sizes are in all of them: bool [N] each."""
    if len(set(counts)) == 1:
        return [np.ones(count, bool) for count in counts]
    drawn = [[query.id for query in load_task(task, data_dir, limit=count).validation] for count in counts]
    both = set.intersection(*map(set, drawn))
    return [np.array([one in both for one in ids]) for ids in drawn]


def programs(one: Repeated, data_dir: Path | None) -> np.ndarray:
    """Return the number of each query's program, int [N].

    Raises:
        UserError: the data have other queries than the records.
    """
    queries = load_task(one.task, data_dir, limit=one.first.queries).validation
    asked, recorded = overlap(queries, ()).question, one.first.questions
    if recorded is None or not np.array_equal(asked, recorded):
        raise UserError(f"{one.task}: the queries of the data are not those of the records")
    return np.unique([template_of(query.output) for query in queries], return_inverse=True)[1]


def tables(found: Sequence[Repeated], minus: str) -> Iterator[Table]:
    """Yield the values of every seed and the scores that changed, and the differences from one row."""
    body: list[list[Value]] = []
    for one in found:
        moves = [f"{a:.1f} → {b:.1f}" for a, b in zip(one.first.values, one.again.values, strict=True)]
        means = f"{one.first.value:.1f} → {one.again.value:.1f}"
        body.append(
            [one.row, one.task, one.first.queries, ", ".join(moves), means, ", ".join(map(str, one.changed))]
        )
    yield Table(["row", "task", "queries", "every seed", "mean", "other scores"], body, "Twice the same")
    yield from _differences(found, minus)


def _differences(found: Sequence[Repeated], minus: str) -> Iterator[Table]:
    """Yield the differences from one row, and their means over tasks where there are several; nothing without it."""
    bases = {(one.task, one.setting): one for one in found if one.row == minus}
    pairs = [
        (one, base) for one in found if one.row != minus and (base := bases.get((one.task, one.setting)))
    ]
    less = [[paired(*sides) for sides in zip(one.samples, base.samples, strict=True)] for one, base in pairs]
    body: list[list[Value]] = [
        [one.row, one.task, *(signed(bootstrap_interval(*sample).percent()) for sample in samples)]
        for (one, _), samples in zip(pairs, less, strict=True)
    ]
    for row, setting in dict.fromkeys((one.row, one.setting) for one, _ in pairs):
        places = [i for i, (one, _) in enumerate(pairs) if (one.row, one.setting) == (row, setting)]
        if len(places) > 1:
            sides = zip(*(less[i] for i in places), strict=True)
            means = [signed(averaged_interval(samples).percent()) for samples in sides]
            body.append([row, f"mean of {len(places)}", *means])
    if body:
        yield Table(["row", "task", "first", "again", "both"], body, f"Less {minus}")


def main(argv: list[str] | None = None) -> None:
    options = arguments(argv)
    if not options.results.is_file():
        raise UserError(f"{options.results}: no such file; name one that --record wrote")
    records = [one for one in read_results(options.results) if one.task in (options.tasks or [one.task])]
    found = repeated(records, options.first, options.again, options.data_dir)
    if options.by_program:
        found = [one._replace(programs=programs(one, options.data_dir)) for one in found]
    for table in tables(found, options.minus):
        print("\n" + table.markdown())


if __name__ == "__main__":
    script(main)
