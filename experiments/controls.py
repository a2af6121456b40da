"""Controls for `free_rows` on tasks with labels, without an LM: other explanations of its gains.

    python experiments/controls.py --data-dir DATA --record experiments/results.jsonl

The queries and the bank are those of `free_rows`: at most 400 queries, and at most 8,600 examples.

- *Vote of 16 nearest*: the most common label of the 16 nearest examples.
- *Classifier, 400 answers*: the classifier, trained on the 400 examples of the bank whose scores EPR
  and CEIL learn from, in place of the whole bank.

Beside each score stands its difference to the classifier of the whole bank.
"""

from __future__ import annotations

import argparse
import datetime
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.command import script
from harness.results_file import Published, keep

from ceil_jax.methods.epr import EPR
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.answering import ROWS_FILE, Answers, rows_of
from ceil_jax.pipeline.config import SCALES
from ceil_jax.pipeline.evaluate import evaluate
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import Setup, open_run
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.pipeline.ways import Reply
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import signed
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.store.kept import Noted, kept
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.load import load_task

EXPERIMENT = "free_rows"
"""The experiment whose rows the records are compared with."""
TASKS = (
    "sst5",
    "movie_reviews",
    "mrpc",
    "qnli",
    "mnli",
)
QUERIES = 400
BANK = 8600
VOTERS = 16
SETTINGS = ("encoder", "shots", "order", "token_budget", "fit")
"""Settings of the configuration that the record of a control contains."""


@kept("voted", files=ROWS_FILE)
def vote(queries: Examples, bank: Examples, choice: Choice) -> list[dict[str, Any]] | Noted:
    """Return the most common output of each query's examples as its answer; in a tie, the one that
    comes first among the examples."""
    replies = []
    for positions in choice.positions:
        outputs = Counter(bank.examples[position].output for position in positions if position >= 0)
        [(output, _)] = outputs.most_common(1)
        replies.append(Reply(output))
    return rows_of(queries, replies)


def controls(setup: Setup) -> dict[str, Answers]:
    """Return the answers of each control."""
    several = replace(setup, config=replace(setup.config, shots=VOTERS))
    nearest = row_stages.choice(several, several.row("topk"))
    positions = StepsOf(setup).training_queries(scored(setup)).positions
    few = [setup.task.train[position] for position in positions]
    fewer = open_run(setup.config, replace(setup.task, train=few), setup.models).setup
    return {
        f"vote of {VOTERS} nearest": vote(setup.queries, setup.bank, nearest),
        f"classifier, {len(few)} answers": row_stages.predictions(fewer, fewer.row("classifier")),
    }


def scored(setup: Setup) -> int:
    """Return the number of bank examples for which EPR and CEIL have LM scores."""
    return setup.config.method(EPR).training_query_count


def whole_bank(setup: Setup, run: Run) -> Published:
    """Return the record of the classifier that is trained on the whole bank."""
    record = evaluate(run, setup, setup.row("classifier"))
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Published(**vars(record), experiment=EXPERIMENT, column=record.task, date=date)


def measured(setup: Setup, run: Run, label: str, answers: Answers) -> Published:
    """Return the record of a control, which is the classifier's record with the control's answers and cost."""
    stage = row_stages.metric(setup, setup.row("classifier")).changed(predictions=answers)
    statistics, cost = run.get(stage).statistics, run.cost([stage])
    base = whole_bank(setup, run)
    record = replace(
        base,
        row=label,
        method=label,
        value=100 * float(METRICS[base.metric].from_sums(statistics.sum(axis=0), len(statistics))),
        statistics=statistics,
        cost=cost,
        answering=cost,
        examples=0.0,
        config={name: base.config[name] for name in SETTINGS if name in base.config},
    )
    interval = Runs([record]).interval
    return replace(record, low=interval.low, high=interval.high)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--out", type=Path, default=Path("runs/controls"))
    parser.add_argument("--record", type=Path)
    options = parser.parse_args(arguments)
    for name in options.tasks:
        config = replace(
            SCALES["small"],
            task=name,
            data_dir=options.data_dir,
            limit=QUERIES,
            bank_limit=BANK,
            # the name of the LM in the records beside which these stand; it is not asked
            dtype="bfloat16",
            out=options.out,
        )
        task = load_task(
            name, config.data_dir, config.limit, config.data_seed, bank_limit=config.bank_limit
        )
        run, setup = open_run(config, task)
        for label, answers in controls(setup).items():
            record = measured(setup, run, label, answers)
            difference = signed(Runs([record]).minus(Runs([whole_bank(setup, run)])))
            score = f"{record.value:.1f} ({record.low:.1f} to {record.high:.1f})"
            print(f"{name}: {label} {score}, less the classifier: {difference}", flush=True)
            if options.record is not None:
                keep(options.record, [record])


if __name__ == "__main__":
    script(main)
