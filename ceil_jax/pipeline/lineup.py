"""The rows that are to be evaluated on one task, with the stages in which they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ceil_jax.methods.row import Row
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.answering import Metrics
from ceil_jax.pipeline.plan import Plan, plan
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import Setup


@dataclass(frozen=True)
class Lineup:
    """Rows in the order of their table. Their stages are put together once, and a dry run, a cut to
    some minutes and the evaluation take them from here.

    Args:
        run: computes stages that are not on disk.
        setup: the task and its settings.
        rows: the rows, with the setup's settings.
        metrics: the stage of the metrics of each row, which needs all of its other stages.
    """

    run: Run
    setup: Setup
    rows: tuple[Row, ...]
    metrics: tuple[Metrics, ...]

    @cached_property
    def plan(self) -> Plan:
        """The work of the stages that are not on disk when it is first asked for. The LM is loaded
        if it has to answer."""
        return plan(self.run, self.metrics)


def lineup_of(run: Run, setup: Setup, rows: Sequence[Row]) -> Lineup:
    """Return rows with their stages. Nothing is computed; the encoder is loaded if a row compares
    vectors.

    Args:
        run: computes stages that are not on disk.
        setup: the task and its settings.
        rows: the rows, with the setup's settings.

    Raises:
        UserError: settings that contradict each other, a query without what the metric needs, or an
            encoder that cannot be loaded.
    """
    METRICS[setup.task.metric].check(setup.task.validation)
    metrics = [row_stages.metric(setup, row) for row in rows]
    return Lineup(run, setup, tuple(rows), tuple(metrics))
