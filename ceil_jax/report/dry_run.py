"""Dry runs: the stages that an evaluation would compute, their LM tokens and their time.

Nothing is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ceil_jax.lm.price import Price
from ceil_jax.pipeline.evaluate import Lineup
from ceil_jax.pipeline.plan import Plan, duration
from ceil_jax.pipeline.speed import Machine, this_machine
from ceil_jax.report.table import Table
from ceil_jax.store.kept import Lazy, closure

WITHOUT_LM = "this machine, without the time of the LM"
"""The name of this machine in dry runs whose LM is a server or a function."""

SHOWN_FROM = 10.0
"""Seconds below which no total is shown, because starting and compiling take longer."""


@dataclass
class DryRun:
    """The stages that some rows need, and the work of those that are not on disk.

    Args:
        machines: the machines whose times are estimated, by the name of their column; by default
            this machine.
    """

    machines: dict[str, Machine] = field(default_factory=lambda: {"this machine": this_machine()})
    stages: dict[Lazy[Any], str] = field(default_factory=dict)
    """The name of each stage's task, in an order in which the stages could run."""
    missing: Plan = field(default_factory=Plan)
    """The work of the stages that are not on disk."""

    def add(self, lineup: Lineup) -> None:
        """Add the stages that some rows need.

        Their run finds the stages on disk; its LMs need only count tokens.
        """
        self.missing |= lineup.plan
        for stage in closure(lineup.metrics):
            if stage in self.missing or lineup.run.notes(stage):
                self.stages.setdefault(stage, lineup.setup.task.name)

    def text(self, price: Price | None = None) -> str:
        """Return the dry run for a terminal: the work of each stage, and the sums in words.

        A stage is shown if it needs LM tokens, encoding or training. The sums are in money too, if
        the LM's tokens have a price.
        """
        rows: list[list[str | int | None]] = []
        small = 0
        for stage, task in self.stages.items():
            work = self.missing.get(stage)
            if work is None:
                rows.append([stage.what, task, "on disk", *self._no_amounts])
            elif work.read or work.written or work.encoded or work.trained:
                amounts = (work.steps or None, round(work.read), round(work.written))
                seconds = [machine.seconds(work) for machine in self.machines.values()]
                times = [duration(one) if one >= 1 else None for one in seconds]
                rows.append([stage.what, task, "would run", *amounts, *times])
            else:
                small += 1
        if small:
            rows.append([f"{small} stages of little work", "", "would run", *self._no_amounts])
        read = sum(work.read for work in self.missing.values())
        written = sum(work.written for work in self.missing.values())
        header = ["stage", "task", "state", "steps", "LM tokens read", "written", *self.machines]
        totals = [
            f"{machine.name}: {_in_words(self.missing.seconds(machine))}"
            for machine in self.machines.values()
        ]
        on_disk = len(self.stages) - len(self.missing)
        lines = [
            Table(header, rows).text(),
            "",
            f"{on_disk} stages on disk, {len(self.missing)} would run: about {read:,.0f} LM "
            f"tokens to read and {written:,.0f} to write",
        ]
        if price is not None:
            lines.append(f"about {price.shown(price.of_tokens(read, written))}")
        return "\n".join([*lines, *totals])

    @property
    def _no_amounts(self) -> list[None]:
        """Empty cells in place of a stage's steps, tokens and times."""
        return [None] * (3 + len(self.machines))


def _in_words(seconds: float) -> str:
    """The time of the work that is counted, and which work is not."""
    rest = "starting, compiling, tokenizing and searching are not counted"
    if seconds < SHOWN_FROM:
        return f"less than {SHOWN_FROM:.0f} s of reading, encoding and training; {rest}"
    return f"about {duration(seconds)} of reading, encoding and training; {rest}"


def planned(lineup: Lineup, price: Price | None = None) -> str:
    """Return in words what evaluating some rows would compute.

    Args:
        lineup: the rows with their stages.
        price: the price of the LM's tokens; None to leave money out.

    Raises:
        UserError: models that cannot be used.
    """
    lm = lineup.setup.lm
    dry_run = DryRun()
    if lm.is_served or lm.is_function:
        # its speed is not that of this machine
        dry_run.machines = {"here, without the LM": this_machine()._replace(name=WITHOUT_LM)}
    dry_run.add(lineup)
    return dry_run.text(price)
