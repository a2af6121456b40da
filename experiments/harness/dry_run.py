"""The plan of a grid of runs: the stages of all entries, their LM tokens and their time. Nothing is
computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.pipeline.models import CountingModels
from ceil_jax.pipeline.plan import Machine, Plan, duration, plan, this_machine
from ceil_jax.pipeline.stage import Stage, closure
from ceil_jax.report.table import Table
from harness.grid import Entry, Grid

_TF32 = 495e12  # dense FLOP/s, the maker's figure for an H100 or H200

ONE_GPU = Machine(
    "one H200 (LM reading as measured with 135 million parameters; a larger LM reaches more; the "
    "rest guessed)",
    # 281,000 tokens a second (benchmarks/README.md)
    lm=134.5e6 * 281e3,
    # short texts in small networks: 10 % of the peak
    encode=0.1 * _TF32 / 2,
    # the backward pass costs twice the forward one
    train=0.1 * _TF32 / 6,
)


@dataclass
class DryRun:
    """What the entries of a table would need."""

    stages: dict[Stage[Any], str] = field(default_factory=dict)
    """The task of each stage, needs first."""
    missing: Plan = field(default_factory=Plan)
    """The work of those that are not on disk."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why a task cannot run, by its name."""

    def text(self) -> str:
        """Return a line for each stage that takes LM tokens, encoding or training, and the sums in
        words."""
        machines = this_machine(), ONE_GPU
        rows: list[list[str | int | None]] = []
        small = 0
        for stage, task in self.stages.items():
            work = self.missing.get(stage)
            if work is None:
                rows.append([stage.what, task, "on disk", *[None] * 5])
            elif any((work.read, work.written, work.encoded, work.trained)):
                times = [duration(machine.seconds(work)) for machine in machines]
                amounts = work.steps or None, round(work.read), round(work.written)
                rows.append([stage.what, task, "would run", *amounts, *times])
            else:
                small += 1
        if small:
            rows.append([f"{small} stages of little work", "", "would run", *[None] * 5])
        read = sum(work.read for work in self.missing.values())
        written = sum(work.written for work in self.missing.values())
        return "\n".join(
            [
                Table(HEADER, rows).text(),
                "",
                f"{len(self.stages) - len(self.missing)} stages on disk, {len(self.missing)} would "
                f"run: about {read:,.0f} LM tokens to read and {written:,.0f} to write",
                *(f"{one.name}: about {duration(self.missing.seconds(one))}" for one in machines),
                *(f"{task} cannot run: {message}" for task, message in self.failed.items()),
            ]
        )


HEADER = (
    "stage",
    "task",
    "state",
    "steps",
    "LM tokens read",
    "written",
    "this machine",
    "H200 (est.)",
)


def dry_run(entries: Sequence[Entry], seeds: Sequence[int]) -> DryRun:
    """Return the stages that the entries would need with these seeds of training. Nothing is
    written.

    Args:
        entries: cells of a table.
        seeds: only the first counts where an entry depends on none.
    """
    found, grid = DryRun(), Grid(CountingModels())
    for entry in entries:
        for cell in entry.cell.repeats(seeds):
            if entry.task in found.failed:
                continue
            try:
                if not grid.applies(entry):
                    continue
                run, graph = grid.open(cell)
                targets = [graph.metric(entry.cell.method)]
                found.missing |= plan(run, targets)
                for stage in closure(targets):
                    if stage in found.missing or run.summary(stage):
                        found.stages.setdefault(stage, entry.task)
            except UserError as error:
                found.failed[entry.task] = str(error)
    return found
