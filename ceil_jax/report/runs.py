"""The runs of a method that differ in their seed of training: value, interval, differences, parts
of the queries."""

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
"""The columns of costs in a table of methods; hours are those of a GPU, or of a core without a GPU."""


def cost_table(costs: Mapping[str, Cost]) -> Table:
    """Return a table of what each stage, or kind of stages, took."""
    rows = [[stage, Number(cost.seconds), cost.tokens or None] for stage, cost in costs.items()]
    return Table(["stage", "seconds", "LM tokens"], rows)


@dataclass(frozen=True, eq=False)
class Runs:
    """One method's runs on the same queries, one for each seed of training; numbers are in percent
    of its metric."""

    records: Sequence[Record]
    where: np.ndarray | None = field(default=None, repr=False)
    """bool [N]: the part of the queries that the numbers are of; None for all of them."""
    paper: float | None = None
    label: str = ""
    """The method, and the settings in which it differs from the other runs of that method in a
    table."""

    @property
    def record(self) -> Record:
        """The run of the first seed."""
        return self.records[0]

    @property
    def queries(self) -> int:
        """The number of queries."""
        return self.record.queries if self.where is None else int(self.where.sum())

    @property
    def known(self) -> bool:
        """Whether intervals, differences and parts can be computed: all runs have statistics, and
        the metric, which a plugin may have brought, is there."""
        recorded = all(record.statistics is not None for record in self.records)
        return recorded and self.record.metric in METRICS

    @property
    def statistics(self) -> np.ndarray:
        """float [S, N, s]: statistics of each query, for each of S seeds."""
        statistics = np.stack(
            [record.statistics for record in self.records if record.statistics is not None]
        )
        return statistics if self.where is None else statistics[:, self.where]

    @property
    def questions(self) -> np.ndarray | None:
        """int [N], equal numbers for equal questions; None if they are unknown."""
        if (overlap := self.record.overlap) is None:
            return None
        return overlap.question if self.where is None else overlap.question[self.where]

    @cached_property
    def scores(self) -> np.ndarray:
        """float [N]: the metric of each query, for the first seed."""
        return self.record.scores()

    @property
    def values(self) -> tuple[float, ...]:
        """The metric for each seed."""
        if self.where is None:
            return tuple(record.value for record in self.records)
        value = METRICS[self.record.metric].from_sums
        return tuple(
            100 * float(value(of_run.sum(axis=0), self.queries)) for of_run in self.statistics
        )

    @property
    def value(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.values))

    @property
    def sd(self) -> float | None:
        """Standard deviation over seeds (n − 1); None for one seed."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    @property
    def examples(self) -> float | None:
        """Mean number of examples that fitted into a prompt (#ICE), over all queries and seeds;
        None if unknown."""
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
        """The mean over seeds, with the 95 % interval of that mean over resampled questions and
        seeds."""
        return metric_interval(self._by_query, self.questions).percent()

    def minus(self, other: Runs) -> Interval:
        """Return the difference from another method on the same queries, in points, by paired
        bootstrap."""
        return bootstrap_interval(*paired(self.sample, other.sample)).percent()

    def parts(self) -> Mapping[str, np.ndarray]:
        """Return the parts of the queries that are worth a number of their own: name → bool [N]."""
        return {} if self.record.overlap is None or not self.known else self.record.overlap.parts()

    def only(self, where: np.ndarray) -> Runs:
        """Return the numbers on some of the queries; bool [N] says on which."""
        return Runs(self.records, where)

    @property
    def hours(self) -> float | None:
        """Device hours of the first seed; None if the device is unknown."""
        return (
            device_hours(self.record.cost.seconds, self.record.device)
            if self.record.device
            else None
        )

    def costs(self) -> list[Value]:
        """Return the cells of COST_COLUMNS, for the first seed."""
        hours = None if self.hours is None else Number(self.hours, 2)
        tokens = self.record.preparing.tokens, self.record.answering.tokens
        return [*tokens, Number(self.record.cost.seconds, 0), hours]
