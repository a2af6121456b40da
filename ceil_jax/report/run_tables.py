"""Tables of evaluations that are on record: scores, intervals, the paper's numbers and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.metrics.bootstrap import Interval, bootstrap_interval, by_question, metric_interval, paired
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.records import StoredRecord
from ceil_jax.pipeline.results_file import device_hours
from ceil_jax.report.compare import COST_COLUMNS, Difference, labelled
from ceil_jax.report.table import Number, Span, Table
from ceil_jax.tasks import TASKS

BASELINES = ("epr", "topk")
"""The methods that every other method is compared with."""


class RunRow(NamedTuple):
    """One run in a table."""

    record: StoredRecord
    label: str
    """The method, and the settings in which it differs from the other runs of that method."""
    scores: np.ndarray
    """float [N]: the metric of each query."""
    interval: Interval
    """The metric over all queries with its interval, in percent."""
    paper: float | None
    """The number of such a method in CEIL's Table 2."""


class RunTable(NamedTuple):
    """Runs that answered the same queries from the same bank with the same LM."""

    title: str
    lead: str
    """A sentence on metric, queries, bank and models."""
    rows: tuple[RunRow, ...]
    differences: tuple[Difference, ...]
    paper: Mapping[str, float]
    """The paper's numbers of methods that the table does not have."""

    def table(self) -> Table:
        """The rows, with a column for the paper's numbers and for further metrics where there are any."""
        more = list(self.rows[0].record.more)
        table = Table(
            ["method", "score", "95 % interval", "#ICE"],
            [[row.label, row.record.value, Span(row.interval), row.record.examples] for row in self.rows],
        ).with_column("paper", [row.paper for row in self.rows])
        return Table(
            [*table.header, *more, *COST_COLUMNS],
            [
                [
                    *cells,
                    *(row.record.more[name] for name in more),
                    *(row.record.preparing.tokens, row.record.answering.tokens),
                    Number(row.record.cost.seconds, 0),
                    _hours(row.record),
                ]
                for cells, row in zip(table.rows, self.rows, strict=True)
            ],
        )


def _hours(record: StoredRecord) -> Number | None:
    return Number(device_hours(record.cost.seconds, record.device), 2) if record.device else None


def tables(records: Sequence[StoredRecord]) -> list[RunTable]:
    """Return a table for each set of queries, bank, metric and LM, its rows in the order of METHODS.

    A method has one row for all runs with the same predictions: their settings differ only where the method does
    not depend on them.

    Args:
        records: evaluations, as `read_records` returns them.
    """
    groups: dict[tuple[str, ...], list[StoredRecord]] = {}
    for record in records:
        groups.setdefault((record.task, record.lm, record.metric, record.texts), []).append(record)
    return [_table(groups[key]) for key in sorted(groups)]


def _table(found: Sequence[StoredRecord]) -> RunTable:
    order = {name: place for place, name in enumerate(METHODS)}
    distinct = {(record.method, record.metrics): record for record in reversed(found)}
    records = sorted(distinct.values(), key=lambda r: (order.get(r.method, len(order)), r.method, r.name))
    paper = TASKS[records[0].task].paper if records[0].task in TASKS else {}
    rows = []
    for record, label in zip(records, _labels(records), strict=True):
        interval = metric_interval(record.sample(), record.overlap().question).percent()
        rows.append(RunRow(record, label, record.scores(), interval, paper.get(_paper_name(record))))
    first = rows[0].record
    shots = sorted({record.config["shots"] for record in records})
    encoders = sorted({record.config["encoder"] for record in records})
    lead = (
        f"{first.metric} in percent on {len(rows[0].scores):,} held-out queries; {first.lm}; at most "
        f"{' or '.join(map(str, shots))} examples from a bank of {first.bank:,}; encoder {' or '.join(encoders)}"
    )
    shown = {_paper_name(row.record) for row in rows}
    others = {name: value for name, value in paper.items() if name not in shown}
    return RunTable(first.task, lead, tuple(rows), _differences(rows), others)


def _differences(rows: Sequence[RunRow]) -> tuple[Difference, ...]:
    """Return every run minus every run of the BASELINES."""
    return tuple(
        Difference(
            row.label,
            base.label,
            bootstrap_interval(
                *by_question(paired(row.record.sample(), base.record.sample()), row.record.overlap().question)
            ).percent(),
        )
        for method in BASELINES
        for base in rows
        if base.record.method == method
        for row in rows
        if row is not base and row.record.method not in BASELINES[: BASELINES.index(method)]
    )


def _labels(records: Sequence[StoredRecord]) -> list[str]:
    """Return a label for each run: `CEIL`, or `CEIL, ceil.loss info_nce` if the table has several of it."""
    settings = [_flat(record.config) for record in records]
    labels = []
    for record, own in zip(records, settings, strict=True):
        same = [other for r, other in zip(records, settings, strict=True) if r.method == record.method]
        varied = [name for name in own if any(other.get(name) != own[name] for other in same)]
        known = METHODS.get(record.method)
        label = labelled(known.label if known else record.method, record.kept)
        labels.append(", ".join([label, *(f"{name} {own[name]}" for name in varied)]))
    return labels


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = "–" if value is None else str(value)
    return flat


def _paper_name(record: StoredRecord) -> str:
    """Return the row of CEIL's Table 2 that the method corresponds to; its encoders are of BERT's size."""
    if record.method == "topk":
        encoder = record.config["encoder"].lower()
        return next((n for n in ("Contriever", "SimCSE") if n.lower() in encoder), "BERT")
    return {"random": "random", "bm25": "BM25", "dpp": "DPP-BERT", "epr": "EPR", "ceil": "CEIL"}.get(
        record.method, ""
    )
