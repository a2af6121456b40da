"""Ablation of training: EPR and CEIL differ in four ways, and each of them has a row here.

    python experiments/cause.py --tasks cogs.ps --scale small --bank-limit 1000 --limit 400 \\
        --seeds 0 1 2 --data-dir DATA
    python experiments/cause.py --tasks geoquery.template --scale small --limit 1000 --seeds 0 1 2 \\
        --data-dir DATA

CEIL's candidates are near examples and not those of BM25, its loss compares all of a query's
candidates and not one pair, its examples stay frozen while training, and it learns from sets. A
single example is a set of one, so that CEIL's training with `--ceil.size 1` differs from CEIL in
the sets alone: from EPR's encoder it is a *second round* of singles, the method `second_round`. All
rows have the same shortlist, training queries and start, those of a method the same LM scores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry
from learning_curve import with_agreement

from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.registry import ROWS
from ceil_jax.methods.untrained import Untrained
from ceil_jax.pipeline.config import RunConfig

TRADE_OFF = 0.001
"""The λ that tuning chose in all recorded runs of COGS and of the template split."""
TRADE_OFFS = (0.01, 0.05, 0.1)
RATE = 1e-4
"""CEIL's learning rate."""
EPOCHS = 3
"""CEIL's passes over its training queries."""
PAPER: dict[str, Any] = {"train_context": "both", "learning_rate": 1e-5, "sets_per_step": "all"}
"""The paper's training: both networks, its rate, and all of a query's sets in every step."""
PAPER_EPOCHS = (30, 100)


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    """Return the rows of a task: the nearest examples, EPR with steps towards CEIL, and CEIL with variants."""
    base = config.with_method(CEIL, trade_off=TRADE_OFF)
    nearest = Entry(ROWS["topk"].label, config.task, Cell(base, "topk"))
    return [nearest, *_epr_rows(base), *_ceil_rows(base)]


def _epr_rows(base: RunConfig) -> Iterator[Entry]:
    """Yield the rows of EPR, and of EPR's own candidates and scores with other settings taken from CEIL."""

    def row(name: str, **settings: Any) -> Entry:
        return Entry(name, base.task, Cell(base.with_method(EPR, **settings), "epr"))

    pairwise: dict[str, Any] = {"learning_rate": RATE, "loss": "pairwise", "epochs": EPOCHS}
    frozen: dict[str, Any] = {**pairwise, "train_context": "frozen"}
    yield row("EPR")
    yield row("EPR, rate 1e-4", learning_rate=RATE)
    yield row("EPR, rate 1e-4, no in-batch negatives", learning_rate=RATE, in_batch_negatives=False)
    yield row("EPR's candidates, pairwise loss", **frozen)
    yield row("EPR's candidates, pairwise loss, examples learnt", **pairwise)
    after = base.with_method(EPR, **frozen).with_method(CEIL, size=1)
    yield Entry("second round after the pairwise loss", base.task, Cell(after, "ceil_topk"))


def _ceil_rows(base: RunConfig) -> Iterator[Entry]:
    """Yield the rows of CEIL: with single examples as sets, as it is, and with other losses, λ and sets."""

    def row(name: str, method: str = "ceil_topk", **settings: Any) -> Entry:
        return Entry(name, base.task, Cell(base.with_method(CEIL, **settings), method))

    more = 3 * base.method(CEIL).subsets
    near: dict[str, Any] = {"start": Untrained()}
    yield row("near singles, pairwise loss", size=1, **near)
    yield row("three times as many near singles", size=1, subsets=more, **near)
    yield row("sets of near examples", **near)
    yield row("second round", size=1)
    yield row("second round, three times as many", size=1, subsets=more)
    yield row("sets from EPR, InfoNCE", loss="info_nce")
    yield row("sets from EPR, sum alone", trade_off=TRADE_OFF / 1000)
    yield row("CEIL top-k")
    yield row("CEIL", "ceil")
    for trade_off in TRADE_OFFS:
        yield row(f"CEIL top-k, λ = {trade_off:g}", trade_off=trade_off)
        yield row(f"CEIL, λ = {trade_off:g}", "ceil", trade_off=trade_off)
    for epochs in PAPER_EPOCHS:
        yield row(f"CEIL, both encoders, {epochs} epochs", "ceil", epochs=epochs, **PAPER)


EXPERIMENT = Experiment("cause", "What teaches", entries, points, with_agreement)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
