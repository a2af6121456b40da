"""Dry runs: the stages that some rows would compute, their LM tokens and their time. Nothing is
computed."""

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
        machines: whose times are estimated, by the name of a column; by default this machine.
    """

    machines: dict[str, Machine] = field(default_factory=lambda: {"this machine": this_machine()})
    stages: dict[Stage[Any], str] = field(default_factory=dict)
    """The task of each stage, needs first."""
    missing: Plan = field(default_factory=Plan)
    """The work of those that are not on disk."""

    def add(self, run: Run, targets: Sequence[Stage[Any]], task: str) -> None:
        """Add the stages that a task's targets need. Nothing is written.

        Args:
            run: a run whose LMs may be ones that only count.
            targets: stages, such as the metrics of rows.
            task: its name.
        """
        self.missing |= plan(run, targets)
        for stage in closure(targets):
            if stage in self.missing or run.summary(stage):
                self.stages.setdefault(stage, task)

    def text(self, price: Price | None = None) -> str:
        """Return a line for each stage that takes LM tokens, encoding or training, and the sums in
        words; in money too, where there is a price of the LM's tokens."""
        rows: list[list[str | int | None]] = []
        small = 0
        for stage, task in self.stages.items():
            work = self.missing.get(stage)
            if work is None:
                rows.append([stage.what, task, "on disk", *self._empty])
            elif any((work.read, work.written, work.encoded, work.trained)):
                times = [duration(machine.seconds(work)) for machine in self.machines.values()]
                amounts = (work.steps or None, round(work.read), round(work.written))
                rows.append([stage.what, task, "would run", *amounts, *times])
            else:
                small += 1
        if small:
            rows.append([f"{small} stages of little work", "", "would run", *self._empty])
        read = sum(work.read for work in self.missing.values())
        written = sum(work.written for work in self.missing.values())
        header = ["stage", "task", "state", "steps", "LM tokens read", "written", *self.machines]
        times = [
            f"{machine.name}: about {duration(self.missing.seconds(machine))}"
            for machine in self.machines.values()
        ]
        done = len(self.stages) - len(self.missing)
        return "\n".join(
            [
                Table(header, rows).text(),
                "",
                f"{done} stages on disk, {len(self.missing)} would run: about {read:,.0f} LM "
                f"tokens to read and {written:,.0f} to write",
                *(
                    []
                    if price is None
                    else [f"about {price.shown(price.of_tokens(read, written))}"]
                ),
                *times,
            ]
        )

    @property
    def _empty(self) -> list[None]:
        """The cells of a row without work."""
        return [None] * (3 + len(self.machines))


def planned(run: Run, setup: Setup, rows: Sequence[Row], price: Price | None = None) -> str:
    """Return in words what evaluating some rows would compute.

    Args:
        run: a run whose LMs may be ones that only count.
        setup: the task and its settings.
        rows: rows with the setup's settings.
        price: of the LM's tokens, to say what they cost.

    Raises:
        UserError: settings or models that cannot be.
    """
    dry_run = DryRun()
    dry_run.add(run, check(run, setup, rows), setup.task.name)
    return dry_run.text(price)
