"""Published runs as tables: from their file alone, without a model or data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import (
    Interval,
    Sample,
    averaged_interval,
    bootstrap_interval,
    over_seeds,
    paired,
)
from ceil_jax.report.results import read_results, unpacked
from ceil_jax.report.table import Number, Table, signed

Line = dict[str, Any]


def published(file: Path, experiments: Sequence[str] = (), minus: Sequence[str] = ()) -> str:
    """Markdown: a table for each experiment and setting, means over tasks, differences to rows, costs.

    Means, and intervals of differences, are of runs whose lines have `statistics`; each column's queries are
    resampled by themselves (`intervals.averaged_interval`).

    Args:
        experiments: names as in the file; by default all.
        minus: rows that the others are compared with, where a table has them.

    Raises:
        UserError: no such file or experiment; a table with two runs in one place, or with different queries in a
            column.
    """
    if not file.is_file():
        raise UserError(f"{file}: no such file; name one that --record wrote")
    lines = read_results(file)
    if not lines:
        raise UserError(f"{file}: no results in it")
    known = list(dict.fromkeys(line["experiment"] for line in lines))
    for name in experiments:
        if name not in known:
            raise unknown_name("experiment", name, known)
    groups: dict[str, list[Line]] = {}
    for line in lines:
        if line["experiment"] in (experiments or known):
            groups.setdefault(_title(line), []).append(line)
    return "\n".join(part for title, members in groups.items() for part in _table(title, members, minus))


def _title(line: Line) -> str:
    """Runs of one title stand in one table: of all tasks where they are the columns, else of one."""
    by_task = line["column"] == line["task"]
    name = line["experiment"] if by_task else f"{line['experiment']} on {line['task']}"
    shots = f"{line['shots']} examples a prompt, " if by_task else ""
    return f"{name} ({line['lm']}, {shots}encoder {line['encoder']})"


def _table(title: str, lines: Sequence[Line], minus: Sequence[str]) -> Iterable[str]:
    places: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        here = places.setdefault((line["row"], line["column"]), [])
        if any(other["seed"] == line["seed"] for other in here):
            raise UserError(
                f"{title}: {line['row']} on {line['column']} is there twice, with other settings; "
                "keep them in two files"
            )
        here.append(line)
    rows, columns = (list(dict.fromkeys(place[i] for place in places)) for i in (0, 1))
    samples = {
        place: sample for place, runs in places.items() if (sample := _sample(title, runs)) is not None
    }
    by_task = all(line["column"] == line["task"] for line in lines)
    yield from (f"# {title}", "")

    def averaged(found: Sequence[Sample | None]) -> Interval | None:
        there = [sample for sample in found if sample is not None]
        full = by_task and len(there) == len(columns) > 1
        return averaged_interval(there).percent() if full else None

    means = [averaged([samples.get((row, column)) for column in columns]) for row in rows]
    values = Table.crossed({place: _value(runs) for place, runs in places.items()})
    yield values.with_column("mean (95 % interval)", [_mean(mean) for mean in means]).markdown()
    for other in minus:
        pairs = {
            row: [_pair(title, places, samples, row, other, column) for column in columns]
            for row in rows
            if row != other
        }
        pairs = {row: found for row, found in pairs.items() if any(found)}
        if pairs:
            body = [[row, *map(_difference, found)] for row, found in pairs.items()]
            less = Table(["", *columns], body, f"Less {other}")
            yield less.with_column("mean", [signed(averaged(found)) for found in pairs.values()]).markdown()
    costs = {place: _cost(runs) for place, runs in places.items()}
    yield Table.crossed(
        costs, "What the first seed took, shared work included: LM tokens, seconds"
    ).markdown()
    where = sorted({f"{line['device']}, {line['date']}" for line in lines})
    asked = [_queries(places, column) for column in columns] if by_task else [str(lines[0]["n"])]
    yield from (f"Queries: {', '.join(asked)}. {'; '.join(where)}.", "")


def _sample(title: str, runs: Sequence[Line]) -> Sample | None:
    if not all("statistics" in line for line in runs):
        return None
    if len({(line["texts"], line["metric"], line["n"]) for line in runs}) > 1:
        raise UserError(f"{title}: seeds of {runs[0]['row']} on {runs[0]['column']} saw different queries")
    return over_seeds(
        np.stack([unpacked(line["statistics"]) for line in runs]), metric_named(runs[0]["metric"]).from_sums
    )


def _pair(
    title: str,
    places: dict[tuple[str, str], list[Line]],
    samples: dict[tuple[str, str], Sample],
    row: str,
    other: str,
    column: str,
) -> Sample | None:
    ours, theirs = samples.get((row, column)), samples.get((other, column))
    if ours is None or theirs is None:
        return None
    if places[row, column][0]["texts"] != places[other, column][0]["texts"]:
        raise UserError(f"{title}: {row} and {other} saw different queries of {column}")
    return paired(ours, theirs)


def _difference(pair: Sample | None) -> Number | None:
    return None if pair is None else signed(bootstrap_interval(*pair).percent())


def _value(runs: Sequence[Line]) -> Number:
    values = [line["value"] for line in runs]
    return Number(float(np.mean(values)), sd=float(np.std(values, ddof=1)) if len(values) > 1 else None)


def _mean(interval: Interval | None) -> Number | None:
    return None if interval is None else Number(interval.mean, interval=interval)


def _cost(runs: Sequence[Line]) -> str:
    elsewhere = " + training elsewhere" if runs[0].get("trained_by") else ""
    return f"{runs[0]['tokens']:,}, {runs[0]['seconds']:,.0f}{elsewhere}"


def _queries(places: dict[tuple[str, str], list[Line]], column: str) -> str:
    [first, *_] = [runs[0] for (_, of), runs in places.items() if of == column]
    return f"{first['n']} of {column}"
