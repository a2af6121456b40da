"""Tables with a row for each method: scores, intervals, the paper's numbers, costs and paired
differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline.records import Record
from ceil_jax.pipeline.ways import TROUBLE_COLUMNS, trouble_in_words
from ceil_jax.report.certainty import Difference, certainty
from ceil_jax.report.runs import COST_COLUMNS, Runs
from ceil_jax.report.table import Table, Value, signed
from ceil_jax.tasks import TASKS

_PAPER_NAMES = {
    "random": "random",
    "bm25": "BM25",
    "topk": "BERT",
    "contriever": "Contriever",
    "simcse": "SimCSE",
    "dpp": "DPP-BERT",
    "epr": "EPR",
    "ceil": "CEIL",
}
"""The rows of CEIL's Table 2 by our method, or by what the encoder of top-k is called."""


@dataclass(frozen=True)
class RunTable:
    """Runs that answered the same queries from the same bank with the same LM."""

    rows: tuple[Runs, ...]
    differences: tuple[Difference, ...]
    """Each row against its baselines, and the best row against every other."""
    others: tuple[Difference, ...]
    """The certain differences of all other pairs."""
    paper: Mapping[str, float]
    """The paper's numbers of methods that the table does not have."""

    @property
    def record(self) -> Record:
        """The first row's record; task, metric, LM, bank and queries are those of all rows."""
        return self.rows[0].record

    @property
    def lead(self) -> str:
        """A sentence on metric, queries, bank and models."""
        configs, record = [row.record.config for row in self.rows], self.record
        shots, encoders = (
            sorted({config[name] for config in configs}) for name in ("shots", "encoder")
        )
        return (
            f"{record.metric} in percent on {record.queries:,} held-out queries; {record.lm}; at most "
            f"{' or '.join(map(str, shots))} examples from a bank of {record.bank:,}; encoder "
            f"{' or '.join(encoders)}"
        )

    @property
    def certainty(self) -> str:
        """The certain differences, and how many queries would decide the others."""
        return certainty(self.differences, self.record.queries, self.others)

    def table(self) -> Table:
        """Return the methods with their scores and costs, the paper's numbers and further metrics
        where there are any."""
        rows, more = self.rows, list(self.record.more)
        scores: list[list[Value]] = [
            [row.label, row.value, row.interval if row.known else None, row.examples]
            for row in rows
        ]
        table = Table(["method", "score", "95 % interval", "examples"], scores)
        table = table.with_column("paper", [row.paper for row in rows])
        for trouble, column in TROUBLE_COLUMNS.items():
            table = table.with_column(column, [row.record.troubles.get(trouble) for row in rows])
        further = [[*(row.record.more[name] for name in more), *row.costs()] for row in rows]
        body = [[*cells, *others] for cells, others in zip(table.rows, further, strict=True)]
        return Table([*table.header, *more, *COST_COLUMNS], body)

    @property
    def remarks(self) -> str:
        """What is to be said of single rows, in lines: which encoder a training kept; and for each
        kind of trouble with the LM's answers what it is, and how many answers had it."""
        kept = [f"{row.label}: {row.record.kept}" for row in self.rows if row.record.kept]
        lines = [f"{'; '.join(kept)}."] if kept else []
        for trouble, column in TROUBLE_COLUMNS.items():
            counts = [(row, row.record.troubles.get(trouble, 0)) for row in self.rows]
            cells = [
                f"{count:,} of {row.record.queries:,} ({row.label})"
                for row, count in counts
                if count
            ]
            if cells:
                limits = {row.record.answer_limit for row, count in counts if count}
                limit = limits.pop() if len(limits) == 1 else None
                words = trouble_in_words(trouble, limit)
                what = f"{column.capitalize()}: answers of the LM that are {words}"
                lines.append(f"{what}: {', '.join(cells)}.")
        return "\n".join(lines)

    def parts(self) -> Table | None:
        """Return the scores and differences on queries that stand in the bank and on the others,
        where there are both."""
        parts = self.rows[0].parts()
        body: list[list[Value]] = [
            [row.label, *(row.only(where).value for where in parts.values())] for row in self.rows
        ]
        for run, other in _pairs(self.rows):
            less = [run.only(where).minus(other.only(where)) for where in parts.values()]
            body.append([f"{run.label} − {other.label}", *map(signed, less)])
        return Table(["queries whose", *parts], body) if parts else None


def run_table(records: Sequence[Record]) -> RunTable:
    """Return a table with a row for each of some evaluations on the same queries."""
    paper = TASKS[records[0].task].paper if records[0].task in TASKS else {}
    names = [_paper_name(record) for record in records]
    rows = tuple(
        Runs((record,), paper=paper.get(name), label=label)
        for record, name, label in zip(records, names, _labels(records), strict=True)
    )
    pairs = _pairs(rows)
    if rows:
        best = max(rows, key=lambda row: row.value)
        against = [(best, row) for row in rows if row is not best]
        pairs += [pair for pair in against if not _holds(pairs, pair)]
    rest = [pair for pair in combinations(rows, 2) if not _holds(pairs, pair)]
    others = [difference for difference in _differences(rest) if difference.certain]
    others.sort(key=lambda difference: -abs(difference.interval.mean))
    return RunTable(
        rows,
        tuple(_differences(pairs)),
        tuple(others),
        {n: value for n, value in paper.items() if n not in names},
    )


def _holds(pairs: Sequence[tuple[Runs, Runs]], pair: tuple[Runs, Runs]) -> bool:
    """Return whether a pair is among others, in either order."""
    first, second = pair
    return any(
        (one is first and other is second) or (one is second and other is first)
        for one, other in pairs
    )


def _differences(pairs: Sequence[tuple[Runs, Runs]]) -> list[Difference]:
    """Return the difference of each pair whose scores of single queries are known."""
    return [
        Difference(row.label, other.label, row.minus(other))
        for row, other in pairs
        if row.known and other.known
    ]


def tables(records: Sequence[Record]) -> list[RunTable]:
    """Return a table for each set of queries, bank, metric and LM that `read_records` found, its
    rows as in ROWS.

    A method has one row for all runs with the same predictions: their settings differ only where
    the method does not depend on them.
    """
    order = {name: position for position, name in enumerate(ROWS)}
    groups: dict[tuple[str, ...], dict[tuple[str, str], Record]] = {}
    for record in reversed(records):
        group = groups.setdefault((record.task, record.lm, record.metric, record.texts), {})
        group[record.method, record.metrics] = record
    return [
        run_table(
            sorted(
                records_of_table.values(),
                key=lambda r: (order.get(r.method, len(order)), r.method, r.name),
            )
        )
        for _, records_of_table in sorted(groups.items())
    ]


def _pairs(rows: Sequence[Runs]) -> list[tuple[Runs, Runs]]:
    """Return the rows whose differences are shown, those of the last rows of ROWS first.

    A run is compared with every run of the methods that its own is measured `against` (top-k, where
    the method's module is not imported), and with the first run of its own method.
    """
    runs: dict[str, list[Runs]] = {}
    for row in rows:
        runs.setdefault(row.record.method, []).append(row)
    known = [name for name in ROWS if name in runs]
    pairs: list[tuple[Runs, Runs]] = []
    for name in [*(name for name in runs if name not in ROWS), *reversed(known)]:
        row_of_name = ROWS.get(name)
        against = ("topk",) if row_of_name is None else row_of_name.against
        pairs += [(row, runs[name][0]) for row in runs[name][1:]]
        pairs += [
            (row, base) for other in against for base in runs.get(other, ()) for row in runs[name]
        ]
    return pairs


def _labels(records: Sequence[Record]) -> list[str]:
    """Return a label for each run: `CEIL`, or `CEIL, ceil.loss info_nce` if the table has several
    of it."""
    settings = [_flat(record.config) for record in records]
    labels = []
    for record, flat in zip(records, settings, strict=True):
        same = [
            other for r, other in zip(records, settings, strict=True) if r.method == record.method
        ]
        varied = [name for name in flat if any(other.get(name) != flat[name] for other in same)]
        settings_shown = (f"{name} {flat[name]}" for name in varied)
        labels.append(", ".join([recorded_label(record), *settings_shown]))
    return labels


def recorded_label(record: Record) -> str:
    """Return a record's row in tables: the recorded label; in older records and in results files,
    the label of its row, or its name where that is not known."""
    if record.label:
        return record.label
    row = ROWS.get(record.method)
    return record.method if row is None else row.label


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = "–" if value is None else str(value).replace("\n", "\\n")
    return flat


def _paper_name(record: Record) -> str:
    """Return the row of CEIL's Table 2 that the method corresponds to; its encoders are of BERT's
    size."""
    encoder = record.config["encoder"].lower() if record.method == "topk" else ""
    named = [name for name in ("contriever", "simcse") if name in encoder]
    return _PAPER_NAMES.get([*named, record.method][0], "")
