"""Evaluations of the same queries side by side: scores, intervals, the paper's numbers, paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.metrics.bootstrap import Interval, bootstrap_interval, paired
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.records import Record
from ceil_jax.tasks import TASKS

AGAINST = ("epr", "topk")
"""The methods that every other is compared with."""


class Line(NamedTuple):
    """One run in a table."""

    record: Record
    label: str
    """The method, and the settings in which it differs from the other runs of that method."""
    scores: np.ndarray
    """float [N]."""
    interval: Interval
    """Of the metric over all queries, in percent."""
    paper: float | None
    """What CEIL's Table 2 says of such a method."""


class Difference(NamedTuple):
    """How much better one run is than another on the same queries."""

    run: str
    against: str
    interval: Interval
    """In percentage points."""


class Table(NamedTuple):
    """Runs that answered the same queries from the same bank with the same LM."""

    title: str
    lead: str
    lines: tuple[Line, ...]
    differences: tuple[Difference, ...]
    paper: Mapping[str, float]
    """The paper's other rows."""

    @property
    def header(self) -> list[str]:
        """The columns' names."""
        return ["method", "score", "95 % interval", *["paper"] * self._has_paper, *self._more, *_COSTS]

    @property
    def _has_paper(self) -> bool:
        return any(line.paper is not None for line in self.lines)

    @property
    def _more(self) -> list[str]:
        return list(self.lines[0].record.more)

    def cells(self) -> list[list[str]]:
        """A row of text a run."""
        return [
            [
                line.label,
                f"{line.record.value:.1f}",
                f"{line.interval.low:.1f} to {line.interval.high:.1f}",
                *["" if line.paper is None else f"{line.paper:.1f}"] * self._has_paper,
                *(f"{line.record.more[name]:.1f}" for name in self._more),
                f"{line.record.preparing.tokens:,}",
                f"{line.record.answering.tokens:,}",
                f"{line.record.preparing.seconds + line.record.answering.seconds:.0f}",
            ]
            for line in self.lines
        ]


_COSTS = ("LM tokens to prepare", "LM tokens to answer", "seconds")


def tables(records: Sequence[Record]) -> list[Table]:
    """One table for each set of queries, bank, metric and LM, its rows in the order of METHODS.

    A method that was run twice with the same predictions (its settings differ where it does not look) is one
    row.
    """
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault((record.task, record.lm, record.metric, record.texts), []).append(record)
    return [_table(groups[key]) for key in sorted(groups)]


def _table(found: Sequence[Record]) -> Table:
    order = {name: place for place, name in enumerate(METHODS)}
    distinct = {(record.method, record.metrics): record for record in reversed(found)}
    records = sorted(distinct.values(), key=lambda r: (order.get(r.method, len(order)), r.method, r.name))
    paper = TASKS[records[0].task].paper if records[0].task in TASKS else {}
    lines = []
    for record, label in zip(records, _labels(records), strict=True):
        interval = bootstrap_interval(*record.sample()).percent()
        lines.append(Line(record, label, record.scores(), interval, paper.get(_paper_name(record))))
    first = lines[0].record
    shots = sorted({record.config["shots"] for record in records})
    encoders = sorted({record.config["encoder"] for record in records})
    lead = (
        f"{first.metric} in percent on {len(lines[0].scores):,} held-out queries; {first.lm}; at most "
        f"{' or '.join(map(str, shots))} examples from a bank of {first.bank:,}; encoder {' or '.join(encoders)}"
    )
    shown = {_paper_name(line.record) for line in lines}
    others = {name: value for name, value in paper.items() if name not in shown}
    return Table(first.task, lead, tuple(lines), _differences(lines), others)


def _differences(lines: Sequence[Line]) -> tuple[Difference, ...]:
    """Of every run against every run of the methods in AGAINST, on the same queries."""
    return tuple(
        Difference(
            line.label,
            base.label,
            bootstrap_interval(*paired(line.record.sample(), base.record.sample())).percent(),
        )
        for method in AGAINST
        for base in lines
        if base.record.method == method
        for line in lines
        if line is not base and line.record.method not in AGAINST[: AGAINST.index(method)]
    )


def _labels(records: Sequence[Record]) -> list[str]:
    """`CEIL`, or where there are several of it `CEIL, ceil.loss info_nce`."""
    settings = [_flat(record.config) for record in records]
    labels = []
    for record, own in zip(records, settings, strict=True):
        same = [other for r, other in zip(records, settings, strict=True) if r.method == record.method]
        varied = [name for name in own if any(other.get(name) != own[name] for other in same)]
        known = METHODS.get(record.method)
        label = known.label if known else record.method
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
    """The row of CEIL's Table 2 that a method stands for; its encoders there are of BERT's size."""
    if record.method == "topk":
        encoder = record.config["encoder"].lower()
        return next((n for n in ("Contriever", "SimCSE") if n.lower() in encoder), "BERT")
    return {"random": "random", "bm25": "BM25", "dpp": "DPP-BERT", "epr": "EPR", "ceil": "CEIL"}.get(
        record.method, ""
    )
