"""`ceil-jax tune` compared with other optimisers of examples, at equal LM tokens.

    python experiments/optimisers.py --data-dir DATA --rows 200 --splits 0 1 2 --out runs/optimisers \\
        --record experiments/results.jsonl
    python experiments/optimisers.py --table

One LM, one encoder and one template of a prompt for all. For each task and split, rows of the bank
are set aside for preparing; what each method may spend on them is the same number of LM tokens, and
the rows for the final comparison are used once, after it has chosen. A method without LM calls
prepares for nothing. DSPy, LangChain and Optuna are the real packages (`pip install
'ceil-jax[peers]'`), asked through the LM in this process; they choose examples, and the prompt is
the task's own.

Tokens are what a server without a cache bills: every prompt whole, and its answer. A run that was
stopped is resumed by the same command. --table prints what is recorded. The budget is that of 200
prompts; runs with another one (--prompts) are an experiment of their own, which results.py prints.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness.command import script
from harness.results_file import RESULTS, Published, keep, read_results
from peers.arena import Arena, Chosen, Shared, Sizes
from peers.comparison import Comparison
from peers.ours import eight_nearest, of_candidate, tune, without_lm, zero

from ceil_jax.distributed.machine import device
from ceil_jax.errors import UserError
from ceil_jax.metrics import METRICS
from ceil_jax.metrics.bootstrap import Sample, metric_interval
from ceil_jax.store.cost import Cost
from ceil_jax.store.hashing import digest
from ceil_jax.tasks.structures import programs
from ceil_jax.tasks.words import overlap
from ceil_jax.tuning.without_lm import row_without_lm

log = logging.getLogger(__name__)

EXPERIMENT = "optimisers"


def experiment_of(sizes: Sizes) -> str:
    """Return the name under which runs with a budget are recorded."""
    return EXPERIMENT if sizes.prompts == Sizes.prompts else f"{EXPERIMENT}_{sizes.prompts}"


TASKS = (
    "cmsqa",
    "movie_reviews",
    "sst5",
    "geoquery",
    "webqs",
    "mtop",
    "qnli",
    "mrpc",
    "nl2bash",
)
"""The tasks, the cheapest first."""

TUNE = "ceil-jax tune"
PROMPT = "ceil-jax tune, its best prompt"
WINNER = "ceil-jax tune, winner of its race"


class Entrant(NamedTuple):
    """A method to compare, with its name in tables."""

    label: str
    prepare: Callable[[Arena], Chosen]


def entrants(only: Sequence[str]) -> list[Entrant]:
    """Return the methods that `tune` is compared with, the cheapest first, or those among them with given names."""
    try:
        from peers import dspy_programs, langchain_selectors, optuna_search
    except ModuleNotFoundError as missing:
        raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[peers]'") from None

    all_entrants = [
        Entrant("zero examples", zero),
        Entrant("DSPy LabeledFewShot", dspy_programs.labeled),
        Entrant("DSPy KNNFewShot", dspy_programs.nearest),
        Entrant("LangChain similarity", langchain_selectors.similarity),
        Entrant("LangChain MMR", langchain_selectors.mmr),
        Entrant("DSPy random search", dspy_programs.random_search),
        Entrant("Optuna over our space", optuna_search.optuna_search),
        Entrant("eight nearest", eight_nearest),
    ]
    return [entrant for entrant in all_entrants if not only or entrant.label in only]


def judged(arena: Arena, label: str, chosen: Chosen, preparing: Cost) -> Published:
    """Return the record of a method's choice: how it answers the judging rows."""
    queries = arena.judging
    if chosen.predictions is not None:
        predictions = chosen.predictions(queries)
        answering = Cost()
    else:
        assert chosen.prompts is not None, "a method has prompts or predictions"
        prompts = chosen.prompts(queries)
        with arena.lm.metered(f"{label}, rows that judge") as meter:
            predictions = arena.answers(prompts, queries)
        answering = meter.cost
    metric = METRICS[arena.task.metric]
    scores = metric.scored(predictions, queries)
    statistics = np.asarray(metric.statistics(scores, predictions, queries), np.float64)
    shared = overlap(queries, arena.bank)
    groups = programs(queries, arena.bank)
    if groups is not None:
        shared = shared._replace(question=groups)
    interval = metric_interval(Sample(statistics, metric.from_sums), shared.question).percent()
    return Published(
        experiment=experiment_of(arena.sizes),
        row=label,
        column=arena.task.name,
        name=f"run-{key_of(arena, label)}",
        task=arena.task.name,
        method=chosen.what,
        metric=arena.task.metric,
        lm=arena.lm.name,
        config={"encoder": arena.config.encoder, "shots": arena.k},
        queries=len(queries),
        bank=len(arena.bank),
        texts=f"texts-{arena.texts}",
        value=interval.mean,
        low=interval.low,
        high=interval.high,
        cost=preparing + answering,
        answering=answering,
        seed=arena.split,
        device=device(),
        examples=chosen.examples,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        statistics=statistics,
        overlap=shared,
    )


def key_of(arena: Arena, label: str) -> str:
    """Return a hash of everything that a record depends on."""
    name = arena.task.name
    return digest([EXPERIMENT, label, name, arena.split, asdict(arena.sizes), arena.config.lm])[:12]


def of_tune(arena: Arena) -> list[Published]:
    """Return the records of `ceil-jax tune`: its recommendation, its best prompt if it recommends
    another way, and the winner of its race."""
    began = time.perf_counter()
    outcome = tune(arena)
    preparing = Cost(time.perf_counter() - began, outcome.tokens)
    log.info("%s", outcome.text())
    best = of_candidate(arena, outcome.recommended.candidate)
    row = row_without_lm(arena.task)
    first = without_lm(arena, row) if row is not None and outcome.finals.needs_no_lm else best
    ways = {
        TUNE: first,
        PROMPT: best,
        WINNER: of_candidate(arena, outcome.finals.standings[0].candidate),
    }
    return [judged(arena, label, chosen, preparing) for label, chosen in ways.items()]


def of_peer(arena: Arena, entrant: Entrant) -> Published:
    """Return the record of a method other than `tune`."""
    began = time.perf_counter()
    with arena.lm.metered(f"{entrant.label}, preparing") as meter:
        chosen = entrant.prepare(arena)
    preparing = Cost(time.perf_counter() - began, meter.cost.tokens)
    return judged(arena, entrant.label, chosen, preparing)


def run(options: argparse.Namespace) -> None:
    """Measure everything that is not on record yet."""
    sizes = Sizes(**{field.name: getattr(options, field.name) for field in fields(Sizes)})
    shared = Shared(options.lm, options.encoder)
    peers = [] if options.methods == [TUNE] else entrants(options.methods)
    with_tune = not options.methods or TUNE in options.methods
    for split in options.splits:
        for name in options.tasks:
            arena = Arena(name, split, sizes, shared, options.out, options.data_dir)
            log.warning(
                "%s, split %d: %d rows in the bank, %d LM tokens to prepare",
                name,
                split,
                len(arena.bank),
                arena.budget,
            )
            names_on_record = {
                record.name
                for record in recorded(options.record)
                if record.experiment == experiment_of(sizes)
            }

            def missing(
                label: str, arena: Arena = arena, names_on_record: set[str] = names_on_record
            ) -> bool:
                return f"run-{key_of(arena, label)}" not in names_on_record

            if with_tune and missing(WINNER):
                _keep(options.record, of_tune(arena))
            row = row_without_lm(arena.task)
            if not options.methods and row is not None and missing(row.label):
                record = judged(arena, row.label, without_lm(arena, row), Cost())
                _keep(options.record, [record])
            for entrant in peers:
                if missing(entrant.label):
                    _keep(options.record, [of_peer(arena, entrant)])


def _keep(file: Path, records: Sequence[Published]) -> None:
    for record in records:
        print(
            f"{record.task}, split {record.seed}: {record.row} {record.value:.1f} ({record.low:.1f} to "
            f"{record.high:.1f}), {record.preparing.tokens:,} tokens to prepare in "
            f"{record.preparing.seconds:.0f} s, {record.answering.tokens:,} to answer in "
            f"{record.answering.seconds:.0f} s; {record.method}",
            flush=True,
        )
    keep(file, records)


def recorded(file: Path) -> list[Published]:
    """Return the records in a file; none if the file does not exist yet."""
    return read_results(file) if file.exists() else []


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--splits", nargs="+", type=int, default=[0])
    parser.add_argument("--methods", nargs="+", default=[], help="rows of the table; default: all")
    parser.add_argument("--data-dir", type=Path, help="a folder of datasets")
    parser.add_argument("--lm", default="SmolLM2-135M-Instruct")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    for field in fields(Sizes):
        parser.add_argument(f"--{field.name}", type=int, default=field.default)
    parser.add_argument("--out", type=Path, default=Path("runs/optimisers"))
    parser.add_argument("--record", type=Path, default=Path("runs/optimisers.jsonl"))
    parser.add_argument(
        "--table", action="store_true", help="print the tables of the recorded runs"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    if options.table:
        file = options.record if options.record.exists() else RESULTS
        records = [record for record in recorded(file) if record.experiment == EXPERIMENT]
        if not records:
            raise UserError(f"{file}: no record of {EXPERIMENT}; run without --table first")
        print(Comparison(records).text())
        return
    run(options)


if __name__ == "__main__":
    script(main)
