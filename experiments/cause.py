"""What teaches: EPR and CEIL differ in four things at once, and here is a row for each of them.

    python experiments/cause.py --tasks cogs.ps --scale small --bank-limit 1000 --limit 400 \\
        --seeds 0 1 2 --data-dir DATA
    python experiments/cause.py --tasks geoquery.template --scale small --limit 1000 --seeds 0 1 2 \\
        --data-dir DATA

CEIL's candidates are near examples and not those of BM25, its loss compares all of a query's
candidates and not one pair, its examples stay frozen while training, and it learns from sets. A
single example is a set of one, so that CEIL's training with `--ceil.size 1` differs from CEIL in
the sets alone: from EPR's encoder it is a second round of singles. All rows have the same shortlist,
training queries and start, those of a method the same LM scores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry

from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.training.config import CEILConfig, EPRConfig

TRADE_OFF = 0.001
"""λ that tuning chose in all recorded runs of COGS and of the template split."""
TRADE_OFFS = (0.01, 0.05, 0.1)
RATE, EPOCHS = 1e-4, 3
"""CEIL's learning rate and passes."""


def entries(config: RunConfig, _: ExperimentOptions) -> list[Entry]:
    """Return the rows of a task: the nearest, EPR and what lies between it and CEIL, CEIL and what
    lies around it."""
    ceil = replace(config.ceil, trade_off=TRADE_OFF)
    base = replace(config, trade_off=TRADE_OFF, ceil=ceil)
    nearest = METHODS["topk"].label, "topk", base
    rows = [nearest, *_epr_rows(base, base.epr), *_ceil_rows(base, ceil)]
    return [Entry(name, config.task, Cell(own, method)) for name, method, own in rows]


def _epr_rows(base: RunConfig, epr: EPRConfig) -> Iterator[tuple[str, str, RunConfig]]:
    """EPR, and EPR's own candidates and scores with what CEIL does otherwise."""
    fast = replace(epr, learning_rate=RATE)
    pairwise = replace(fast, loss="pairwise", epochs=EPOCHS)
    frozen = replace(pairwise, train_context="frozen")
    for name, own in (
        ("EPR", epr),
        ("EPR, rate 1e-4", fast),
        ("EPR, rate 1e-4, no in-batch negatives", replace(fast, in_batch_negatives=False)),
        ("EPR's candidates, pairwise loss", frozen),
        ("EPR's candidates, pairwise loss, examples learnt", pairwise),
    ):
        yield name, "epr", replace(base, epr=own)
    after = replace(base, epr=frozen, ceil=replace(base.ceil, size=1))
    yield "singles from EPR with the pairwise loss", "ceil_topk", after


def _ceil_rows(base: RunConfig, ceil: CEILConfig) -> Iterator[tuple[str, str, RunConfig]]:
    """Singles as sets, CEIL, and CEIL with other losses, λ and sets."""
    single = replace(ceil, size=1)
    near = replace(ceil, initial="base")
    for name, own in (
        ("near singles, pairwise loss", replace(near, size=1)),
        ("three times as many near singles", replace(near, size=1, subsets=3 * ceil.subsets)),
        ("sets of near examples", near),
        ("singles from EPR", single),
        ("three times as many singles from EPR", replace(single, subsets=3 * ceil.subsets)),
        ("sets from EPR, InfoNCE", replace(ceil, loss="info_nce")),
        ("sets from EPR, sum alone", replace(ceil, trade_off=TRADE_OFF / 1000)),
    ):
        yield name, "ceil_topk", replace(base, ceil=own)
    yield "CEIL top-k", "ceil_topk", base
    yield "CEIL", "ceil", base
    for trade_off in TRADE_OFFS:
        own = replace(base, ceil=replace(ceil, trade_off=trade_off))
        yield f"CEIL top-k, λ = {trade_off:g}", "ceil_topk", own
        yield f"CEIL, λ = {trade_off:g}", "ceil", own


EXPERIMENT = Experiment("cause", "What teaches", entries, points)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
