"""Plans: the stages to be computed for some targets, with their LM tokens and their time.

Nothing is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.speed import Machine
from ceil_jax.store.kept import Lazy, Work


class Plan(dict[Lazy[Any], Work]):
    """The work of each stage that has to be computed, dependencies first."""

    @property
    def tokens(self) -> float:
        """The number of LM tokens to read and to generate."""
        return sum(work.read + work.written for work in self.values())

    def seconds(self, machine: Machine) -> float:
        """Return the seconds that all stages take on a machine."""
        return sum(map(machine.seconds, self.values()))


def plan(run: Run, targets: Sequence[Lazy[Any]]) -> Plan:
    """Return the work of the stages that have to be computed for some targets.

    The run's LMs may be ones that only count tokens.
    """
    return Plan({lazy: run.estimate(lazy) for lazy in run.missing(targets)})


def minutes_for(seconds: float, share: float) -> str:
    """Return a value for --minutes, rounded up, that is enough for work of `seconds`.

    Only `share` of the minutes is planned.
    """
    value = seconds / 60 / share - 1e-6
    return f"{math.ceil(value)}" if value > 1 else f"{math.ceil(10 * max(value, 0)) / 10:g}"


def duration(seconds: float) -> str:
    """Return a time as text: `45 s`, `12 min`, `3.4 h`, `2.1 days`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
