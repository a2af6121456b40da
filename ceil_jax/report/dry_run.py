"""Dry runs: the stages that evaluating some methods would compute, their LM tokens and their time.
Nothing is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ceil_jax.lm.price import Price
from ceil_jax.methods.row import Row
from ceil_jax.pipeline.evaluate import check
from ceil_jax.pipeline.plan import Machine, Plan, duration, plan, this_machine
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.stage import Run, Stage, closure
from ceil_jax.report.table import Table


@dataclass
class DryRun:
    """The stages that some targets need, and the work of those that are not on disk.

    Args:
        machines: the machines whose times are estimated, by the name of their column; by default
            this machine.
    """

    machines: dict[str, Machine] = field(default_factory=lambda: {"this machine": this_machine()})
    stages: dict[Stage[Any], str] = field(default_factory=dict)
    """The name of the task of each stage, in an order in which they could run."""
    missing: Plan = field(default_factory=Plan)
    """The work of the stages that are not on disk."""

    def add(self, run: Run, targets: Sequence[Stage[Any]], task: str) -> None:
        """Add the stages that the targets of a task need.

        Args:
            run: finds the stages on disk; its LMs need only count tokens.
            targets: stages, such as the metrics of methods.
            task: the name of the task.
        """
        self.missing |= plan(run, targets)
        for stage in closure(targets):
            if stage in self.missing or run.summary(stage):
                self.stages.setdefault(stage, task)

    def text(self, price: Price | None = None) -> str:
        """Return a line for each stage that needs LM tokens, encoding or training, and the sums in
        words; in money too, if the LM's tokens have a price."""
        rows: list[list[str | int | None]] = []
        small = 0
        for stage, task in self.stages.items():
            work = self.missing.get(stage)
            if work is None:
                rows.append([stage.what, task, "on disk", *self._no_amounts])
            elif work.read or work.written or work.encoded or work.trained:
                amounts = (work.steps or None, round(work.read), round(work.written))
                times = [duration(machine.seconds(work)) for machine in self.machines.values()]
                rows.append([stage.what, task, "would run", *amounts, *times])
            else:
                small += 1
        if small:
            rows.append([f"{small} stages of little work", "", "would run", *self._no_amounts])
        read = sum(work.read for work in self.missing.values())
        written = sum(work.written for work in self.missing.values())
        header = ["stage", "task", "state", "steps", "LM tokens read", "written", *self.machines]
        times = [
            f"{machine.name}: about {duration(self.missing.seconds(machine))}"
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
        return "\n".join([*lines, *times])

    @property
    def _no_amounts(self) -> list[None]:
        """Empty cells in place of a stage's steps, tokens and times."""
        return [None] * (3 + len(self.machines))


def planned(run: Run, setup: Setup, rows: Sequence[Row], price: Price | None = None) -> str:
    """Return in words what evaluating some methods would compute.

    Args:
        run: finds the stages on disk; its LMs need only count tokens.
        setup: the task and its settings.
        rows: the methods, with the setup's settings.
        price: the price of the LM's tokens; None to leave money out.

    Raises:
        UserError: settings or models that cannot be used.
    """
    dry_run = DryRun()
    dry_run.add(run, check(run, setup, rows), setup.task.name)
    return dry_run.text(price)
