"""Tables with a row for each method, and the paired differences of their rows.

A row has scores, intervals, the paper's numbers and costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ceil_jax.methods.registry import ROWS
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.records import Record
from ceil_jax.pipeline.ways import NO_OPTION, TROUBLE_COLUMNS, trouble_in_words, without_label
from ceil_jax.report.runs import COST_COLUMNS, Runs
from ceil_jax.report.significance import Difference, significance
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
"""The rows of CEIL's Table 2, by the name of our method, or by a part of the name of top-k's
encoder."""


@dataclass(frozen=True)
class RunTable:
    """The runs of several methods on the same queries, with the same bank and LM."""

    rows: tuple[Runs, ...]
    differences: tuple[Difference, ...]
    """The differences of each row to its baselines, and of the best row to every other."""
    others: tuple[Difference, ...]
    """The significant differences between other pairs of rows."""
    paper: Mapping[str, float]
    """The paper's scores of methods that the table does not have."""

    @property
    def record(self) -> Record:
        """The record of the first row. All rows have its task, metric, LM, bank and queries."""
        return self.rows[0].record

    @property
    def lead(self) -> str:
        """A line on metric, queries, bank and models."""
        record = self.record
        shots = sorted({row.record.config["shots"] for row in self.rows})
        encoders = sorted({row.record.config["encoder"] for row in self.rows})
        return (
            f"{record.metric} in percent on {record.queries:,} held-out queries; {record.lm}; at most "
            f"{' or '.join(map(str, shots))} examples from a bank of {record.bank:,}; encoder "
            f"{' or '.join(encoders)}"
        )

    @property
    def significance(self) -> str:
        """Sentences on the significant differences.

        They also say how many queries would settle the others.
        """
        return significance(self.differences, self.record.queries, self.others)

    def table(self) -> Table:
        """Return the methods with their scores and costs.

        The paper's numbers and further metrics are shown if there are any.
        """
        rows = self.rows
        more = list(self.record.more)
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
        """The remarks below the table.

        They say why it has no intervals, if it has none; which encoder each training kept; and for
        each kind of trouble with the LM's answers, what it is and how many answers had it.
        """
        lines = []
        if self.record.metric not in METRICS:
            lines.append(
                f"No intervals or differences: the metric {self.record.metric} is not registered; "
                "name the module that registers it (--plugin MODULE)."
            )
        kept_encoders = [f"{row.label}: {row.record.kept}" for row in self.rows if row.record.kept]
        if kept_encoders:
            lines.append(f"{'; '.join(kept_encoders)}.")
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
                line = f"{what}: {', '.join(cells)}."
                if trouble == NO_OPTION:
                    records = [row.record.rows() for row, count in counts if count]
                    answers = [one for rows in records for one in rows]
                    line += without_label((a["prediction"], a.get("trouble", "")) for a in answers)
                lines.append(line)
        return "\n".join(lines)

    def parts(self) -> Table | None:
        """Return the scores and differences on queries that are in the bank and on the others.

        None if there are not both.
        """
        parts = self.rows[0].parts()
        if not parts:
            return None
        body: list[list[Value]] = [
            [row.label, *(row.only(where).value for where in parts.values())] for row in self.rows
        ]
        for run, other in _pairs(self.rows):
            differences = [run.only(where).minus(other.only(where)) for where in parts.values()]
            body.append([f"{run.label} − {other.label}", *map(signed, differences)])
        return Table(["queries whose", *parts], body)


def run_table(records: Sequence[Record]) -> RunTable:
    """Return a table with a row for each evaluation; all are on the same queries."""
    paper = TASKS[records[0].task].paper if records[0].task in TASKS else {}
    names = [_paper_name(record) for record in records]
    rows = tuple(
        Runs((record,), paper=paper.get(name), label=label)
        for record, name, label in zip(records, names, _labels(records), strict=True)
    )
    pairs = _pairs(rows)
    if rows:
        best = max(rows, key=lambda row: row.value)
        against_best = [(best, row) for row in rows if row is not best]
        pairs += [pair for pair in against_best if not _contains(pairs, pair)]
    other_pairs = [pair for pair in combinations(rows, 2) if not _contains(pairs, pair)]
    others = [difference for difference in _differences(other_pairs) if difference.significant]
    others.sort(key=lambda difference: -abs(difference.interval.mean))
    return RunTable(
        rows,
        tuple(_differences(pairs)),
        tuple(others),
        {name: value for name, value in paper.items() if name not in names},
    )


def _contains(pairs: Sequence[tuple[Runs, Runs]], pair: tuple[Runs, Runs]) -> bool:
    """Return whether some pairs contain a pair, in either order."""
    first, second = pair
    return any(
        (run is first and other is second) or (run is second and other is first)
        for run, other in pairs
    )


def _differences(pairs: Sequence[tuple[Runs, Runs]]) -> list[Difference]:
    """Return the difference of each pair whose scores are known for each query."""
    return [
        Difference(run.label, other.label, run.minus(other))
        for run, other in pairs
        if run.known and other.known
    ]


def tables(records: Sequence[Record]) -> list[RunTable]:
    """Return a table for each combination of queries, bank, metric and LM that occurs among some
    records.

    Rows are in the order of ROWS.

    Runs of a method with the same predictions share a row: their settings differ only in what the
    method does not depend on.
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
                key=lambda record: (
                    order.get(record.method, len(order)),
                    record.method,
                    record.name,
                ),
            )
        )
        for _, records_of_table in sorted(groups.items())
    ]


def _pairs(rows: Sequence[Runs]) -> list[tuple[Runs, Runs]]:
    """Return the pairs of runs whose differences are shown.

    Those of the last methods in ROWS come first.

    A run is compared with every run of the methods that its method names in `against` (top-k, if
    the method is not registered), and with the first run of its own method.
    """
    runs: dict[str, list[Runs]] = {}
    for row in rows:
        runs.setdefault(row.record.method, []).append(row)
    known = [name for name in ROWS if name in runs]
    pairs: list[tuple[Runs, Runs]] = []
    unknown = [name for name in runs if name not in ROWS]
    for name in [*unknown, *reversed(known)]:
        first, *others = runs[name]
        pairs += [(run, first) for run in others]
        baselines = ROWS[name].against if name in ROWS else ("topk",)
        for baseline in baselines:
            pairs += [(run, base) for base in runs.get(baseline, ()) for run in runs[name]]
    return pairs


def _labels(records: Sequence[Record]) -> list[str]:
    """Return a label for each run.

    It is `CEIL`, or `CEIL, ceil.loss info_nce` if the table has several runs of CEIL.
    """
    settings = [_flat(record.config) for record in records]
    labels = []
    for record, flat in zip(records, settings, strict=True):
        of_method = [
            other_settings
            for other, other_settings in zip(records, settings, strict=True)
            if other.method == record.method
        ]
        varied = [
            f"{name} {value}"
            for name, value in flat.items()
            if any(other_settings.get(name) != value for other_settings in of_method)
        ]
        labels.append(", ".join([recorded_label(record), *varied]))
    return labels


def recorded_label(record: Record) -> str:
    """Return the label of a record in tables.

    In older records and in results files, which have none, it is the label of their method, or its
    name if it is not registered.
    """
    if record.label:
        return record.label
    row = ROWS.get(record.method)
    return record.method if row is None else row.label


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return settings as text, with the name of a group before its settings: `ceil.loss`."""
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = "–" if value is None else str(value).replace("\n", "\\n")
    return flat


def _paper_name(record: Record) -> str:
    """Return the name that a record's method has in CEIL's Table 2, whose encoders are of BERT's
    size.

    "" if there is none.
    """
    encoder = record.config["encoder"].lower() if record.method == "topk" else ""
    for name in ("contriever", "simcse"):
        if name in encoder:
            return _PAPER_NAMES[name]
    return _PAPER_NAMES.get(record.method, "")
