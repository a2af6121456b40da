"""Tables with a row for each method: scores, intervals, the paper's numbers, costs and paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.records import Record
from ceil_jax.report.runs import COST_COLUMNS, Difference, Runs
from ceil_jax.report.table import Span, Table
from ceil_jax.tasks import TASKS


@dataclass(frozen=True, eq=False, kw_only=True)
class MethodRow(Runs):
    """One run in a table."""

    label: str
    """The method, and the settings in which it differs from the other runs of that method."""

    @property
    def method(self) -> str:
        """The method's name in METHODS."""
        return self.record.method

    @cached_property
    def scores(self) -> np.ndarray:
        """float [N]: the metric of each query."""
        return self.record.scores()


def method_rows(records: Sequence[Record], paper: Mapping[str, float] | None = None) -> list[MethodRow]:
    """Return a row for each record.

    Args:
        records: evaluations on the same queries.
        paper: the rows of CEIL's Table 2 for the task; none by default.
    """
    return [
        MethodRow((record,), paper=(paper or {}).get(_paper_name(record)), label=label)
        for record, label in zip(records, _labels(records), strict=True)
    ]


def method_table(rows: Sequence[MethodRow], more: Sequence[str] = ()) -> Table:
    """Return a table of methods with their scores and costs, and the paper's numbers where there are any.

    Args:
        rows: one a method.
        more: names of further metrics.
    """
    table = Table(
        ["method", "score", "95 % interval", "#ICE"],
        [[row.label, row.value, Span(row.interval), row.examples] for row in rows],
    ).with_column("paper", [row.paper for row in rows])
    return Table(
        [*table.header, *more, *COST_COLUMNS],
        [
            [*cells, *(row.record.more[name] for name in more), *row.costs()]
            for cells, row in zip(table.rows, rows, strict=True)
        ],
    )


def pairs(rows: Sequence[MethodRow]) -> list[tuple[MethodRow, MethodRow]]:
    """Return the rows whose differences are shown, those of the last rows of METHODS first.

    A run is compared with every run of the methods that its own is measured `against` (top-k, where the method's
    module is not imported), and with the first run of its own method.

    Args:
        rows: one a run.
    """
    runs: dict[str, list[MethodRow]] = {}
    for row in rows:
        runs.setdefault(row.method, []).append(row)
    known = [name for name in METHODS if name in runs]
    found: list[tuple[MethodRow, MethodRow]] = []
    for name in [*(name for name in runs if name not in METHODS), *reversed(known)]:
        against = METHODS[name].against if name in METHODS else ("topk",)
        found += [(row, runs[name][0]) for row in runs[name][1:]]
        found += [(row, base) for other in against for base in runs.get(other, ()) for row in runs[name]]
    return found


def differences(pairs: Iterable[tuple[MethodRow, MethodRow]]) -> tuple[Difference, ...]:
    """Return the first of each pair minus the second."""
    return tuple(Difference(one.label, other.label, one.minus(other)) for one, other in pairs)


class RunTable(NamedTuple):
    """Runs that answered the same queries from the same bank with the same LM."""

    title: str
    lead: str
    """A sentence on metric, queries, bank and models."""
    rows: tuple[MethodRow, ...]
    differences: tuple[Difference, ...]
    paper: Mapping[str, float]
    """The paper's numbers of methods that the table does not have."""

    def table(self) -> Table:
        """The rows, with a column for the paper's numbers and for further metrics where there are any."""
        return method_table(self.rows, list(self.rows[0].record.more))


def tables(records: Sequence[Record]) -> list[RunTable]:
    """Return a table for each set of queries, bank, metric and LM, its rows in the order of METHODS.

    A method has one row for all runs with the same predictions: their settings differ only where the method does
    not depend on them.

    Args:
        records: evaluations, as `read_records` returns them.
    """
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault((record.task, record.lm, record.metric, record.texts), []).append(record)
    return [_table(groups[key]) for key in sorted(groups)]


def _table(found: Sequence[Record]) -> RunTable:
    order = {name: place for place, name in enumerate(METHODS)}
    distinct = {(record.method, record.metrics): record for record in reversed(found)}
    records = sorted(distinct.values(), key=lambda r: (order.get(r.method, len(order)), r.method, r.name))
    paper = TASKS[records[0].task].paper if records[0].task in TASKS else {}
    rows = method_rows(records, paper)
    first = rows[0].record
    shots = sorted({record.config["shots"] for record in records})
    encoders = sorted({record.config["encoder"] for record in records})
    lead = (
        f"{first.metric} in percent on {first.queries:,} held-out queries; {first.lm}; at most "
        f"{' or '.join(map(str, shots))} examples from a bank of {first.bank:,}; encoder {' or '.join(encoders)}"
    )
    shown = {_paper_name(row.record) for row in rows}
    others = {name: value for name, value in paper.items() if name not in shown}
    return RunTable(first.task, lead, tuple(rows), differences(pairs(rows)), others)


def _labels(records: Sequence[Record]) -> list[str]:
    """Return a label for each run: `CEIL`, or `CEIL, ceil.loss info_nce` if the table has several of it."""
    settings = [_flat(record.config) for record in records]
    labels = []
    for record, own in zip(records, settings, strict=True):
        same = [other for r, other in zip(records, settings, strict=True) if r.method == record.method]
        varied = [name for name in own if any(other.get(name) != own[name] for other in same)]
        known = METHODS.get(record.method)
        label = known.label if known else record.method
        label += f" ({record.kept})" if record.kept else ""
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


def _paper_name(record: Record) -> str:
    """Return the row of CEIL's Table 2 that the method corresponds to; its encoders are of BERT's size."""
    if record.method == "topk":
        encoder = record.config["encoder"].lower()
        return next((n for n in ("Contriever", "SimCSE") if n.lower() in encoder), "BERT")
    return {"random": "random", "bm25": "BM25", "dpp": "DPP-BERT", "epr": "EPR", "ceil": "CEIL"}.get(
        record.method, ""
    )
