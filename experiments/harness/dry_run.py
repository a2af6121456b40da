"""The plan of a grid of runs: the stages of all entries, their LM tokens and their time, without computing them."""

from __future__ import annotations

from collections.abc import Sequence

from ceil_jax.errors import UserError
from ceil_jax.pipeline.evaluate import lineup_of
from ceil_jax.pipeline.models import CountingModels
from ceil_jax.pipeline.speed import Machine, this_machine
from ceil_jax.report.dry_run import DryRun
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


def dry_run(entries: Sequence[Entry], seeds: Sequence[int]) -> tuple[DryRun, dict[str, str]]:
    """Return the stages that the entries need with these seeds of training; and for each task that
    cannot run, the reason. Nothing is written.

    Args:
        entries: cells of a table.
        seeds: only the first counts where an entry depends on none.
    """
    planned = DryRun({"this machine": this_machine(), "H200 (est.)": ONE_GPU})
    grid = Grid(CountingModels())
    failed: dict[str, str] = {}
    for entry in entries:
        for cell in entry.cell.repeats(seeds):
            if entry.task in failed:
                continue
            try:
                if not grid.applies(entry):
                    continue
                run, setup = grid.open(cell)
                planned.add(lineup_of(run, setup, [setup.row(cell.method)]))
            except UserError as error:
                failed[entry.task] = str(error)
    return planned, failed
