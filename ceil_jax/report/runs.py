"""The runs of one method, which differ only in their seed of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ceil_jax.distributed.machine import device_hours
from ceil_jax.metrics import METRICS
from ceil_jax.metrics.bootstrap import (
    Interval,
    Sample,
    bootstrap_interval,
    by_group,
    metric_interval,
    over_seeds,
    paired,
)
from ceil_jax.pipeline.records import Record
from ceil_jax.report.table import Number, Table, Value
from ceil_jax.store.cost import Cost

COST_COLUMNS = ("LM tokens to prepare", "LM tokens to answer", "seconds", "GPU or core hours")
"""The columns of costs in a table of methods. Hours are those of a GPU, or of a core without a GPU."""


def cost_table(costs: Mapping[str, Cost]) -> Table:
    """Return a table of the cost of each stage, or of each kind of stages."""
    rows = [[stage, Number(cost.seconds), cost.tokens or None] for stage, cost in costs.items()]
    return Table(["stage", "seconds", "LM tokens"], rows)


@dataclass(frozen=True, eq=False)
class Runs:
    """One method's runs on the same queries, one for each seed of training.

    Its numbers are in percent of the metric.

    Runs are sorted by their seeds, one without a seed first, whatever the order in which a file
    has them: differences pair the runs of two methods by their places.
    """

    records: Sequence[Record]
    where: np.ndarray | None = field(default=None, repr=False)
    """bool [N]: the queries to which the numbers are restricted; None for all queries."""
    paper: float | None = None
    label: str = ""
    """The name of the method in a table, with the settings in which it differs from its other runs
    there."""

    def __post_init__(self) -> None:
        in_order = sorted(
            self.records, key=lambda record: -1 if record.seed is None else record.seed
        )
        object.__setattr__(self, "records", tuple(in_order))

    @property
    def record(self) -> Record:
        """The record of the first seed."""
        return self.records[0]

    @property
    def queries(self) -> int:
        """The number of queries."""
        return self.record.queries if self.where is None else int(self.where.sum())

    @property
    def known(self) -> bool:
        """True if intervals, differences and parts can be computed.

        All runs must have statistics, and their metric must be registered (it may be a plugin's).
        """
        recorded = all(record.statistics is not None for record in self.records)
        return recorded and self.record.metric in METRICS

    @property
    def statistics(self) -> np.ndarray:
        """The statistics of each query, for each of S seeds: float [S, N, s]."""
        statistics = np.stack(
            [record.statistics for record in self.records if record.statistics is not None]
        )
        return statistics if self.where is None else statistics[:, self.where]

    @property
    def questions(self) -> np.ndarray | None:
        """A number for each query, equal for queries with the same question: int [N].

        None if unknown.
        """
        if (overlap := self.record.overlap) is None:
            return None
        return overlap.question if self.where is None else overlap.question[self.where]

    @cached_property
    def scores(self) -> np.ndarray:
        """The metric of each query, for the first seed: float [N]."""
        return self.record.scores()

    @property
    def values(self) -> tuple[float, ...]:
        """The metric for each seed."""
        if self.where is None:
            return tuple(record.value for record in self.records)
        value = METRICS[self.record.metric].from_sums
        sums_of_runs = self.statistics.sum(axis=1)
        return tuple(100 * float(value(sums, self.queries)) for sums in sums_of_runs)

    @property
    def value(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.values))

    @property
    def sd(self) -> float | None:
        """The standard deviation over seeds (n − 1); None for one seed."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    @property
    def examples(self) -> float | None:
        """The mean number of examples in a prompt (#ICE), over all queries and seeds.

        None if unknown.
        """
        counts = [record.examples for record in self.records if record.examples is not None]
        return float(np.mean(counts)) if len(counts) == len(self.records) else None

    @cached_property
    def sample(self) -> Sample:
        """The statistics of the distinct questions, with the mean of the metric over seeds."""
        return by_group(self._by_query, self.questions)

    @property
    def _by_query(self) -> Sample:
        return over_seeds(self.statistics, METRICS[self.record.metric].from_sums)

    @cached_property
    def interval(self) -> Interval:
        """The mean over seeds with its 95 % interval over resampled questions and seeds."""
        return metric_interval(self._by_query, self.questions).percent()

    def minus(self, other: Runs) -> Interval:
        """Return the method's score minus that of another one on the same queries, in points.

        The interval is a paired bootstrap interval.
        """
        return bootstrap_interval(*paired(self.sample, other.sample)).percent()

    def parts(self) -> Mapping[str, np.ndarray]:
        """Return the parts of the queries that have scores of their own in tables: name → bool [N]."""
        return {} if self.record.overlap is None or not self.known else self.record.overlap.parts()

    def only(self, where: np.ndarray) -> Runs:
        """Return the same runs with their numbers restricted to some queries, given as bool [N]."""
        return Runs(self.records, where)

    @property
    def hours(self) -> float | None:
        """The device hours of the first seed; None if the device is unknown."""
        if not self.record.device:
            return None
        return device_hours(self.record.cost.seconds, self.record.device)

    def costs(self) -> list[Value]:
        """Return the cells of COST_COLUMNS, for the first seed."""
        return [
            self.record.preparing.tokens,
            self.record.answering.tokens,
            Number(self.record.cost.seconds, 0),
            None if self.hours is None else Number(self.hours, 2),
        ]
