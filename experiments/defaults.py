"""The settings of a selector with an untrained encoder: λ, near-duplicates, the number of examples
and their order.

    python experiments/defaults.py --data-dir DATA             # to choose, on queries from train
    python experiments/defaults.py --data-dir DATA --report    # what was chosen, on validation

Each row is a `CeilSelector` with other settings, and an LM answers its prompts. Two of the six tasks
have programs as outputs, and two have many near-duplicates in the bank: the line printed for a task
says how many examples have one. To choose, queries are drawn from the training split and left out
of the bank. The runs go into a results file under the experiments `defaults_train` and `defaults`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from harness.command import script
from harness.results_file import RESULTS, Published, keep, measured_here

from ceil_jax import CeilSelector, load_encoder, load_task, register_order
from ceil_jax.lm import load_lm
from ceil_jax.lm.cached import CachedLM
from ceil_jax.lm.prompts import Prompt, prompt_order
from ceil_jax.lm.readings import Readings
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.models import Models, NamedLM
from ceil_jax.pipeline.prompting import Prompting
from ceil_jax.pipeline.ways import ask
from ceil_jax.retrieval.index import top_k
from ceil_jax.store.hashing import digest
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.structures import programs
from ceil_jax.tasks.words import overlap

TASKS = ("sst5", "mrpc", "geoquery", "geoquery.template", "nl2bash", "webqs")
BANK = 2000
"""The maximum number of examples in a bank."""
REPEATED = 0.8
"""The cosine, on the scale of the bank, from which an example counts as a near-duplicate."""
_DRAW = 7
"""Seed for drawing queries from the training split."""


@dataclass(frozen=True)
class Way:
    """A way of choosing: settings of a selector, with their name in the table."""

    name: str
    k: int = 4
    settings: dict[str, Any] = field(default_factory=dict)


WAYS = (
    Way("four nearest"),
    Way("two nearest", k=2),
    Way("eight nearest", k=8),
    Way("near_duplicate = 0.8", settings={"near_duplicate": 0.8}),
    Way("near_duplicate = 0.9", settings={"near_duplicate": 0.9}),
    Way("λ = 0.01", settings={"trade_off": 0.01}),
    Way("λ = 0.03", settings={"trade_off": 0.03}),
    Way("λ = 0.1", settings={"trade_off": 0.1}),
    Way("most relevant first", settings={"order": "most_relevant_first"}),
)


def with_queries_of_train(task: Task, count: int) -> Task:
    """Return a task whose queries are drawn from its bank and removed from the bank."""
    drawn = np.random.default_rng(_DRAW).permutation(len(task.train))[:count]
    out = set(drawn.tolist())
    bank = [example for position, example in enumerate(task.train) if position not in out]
    return replace(task, train=bank, validation=[task.train[position] for position in drawn])


def repeated(selector: CeilSelector) -> float:
    """Return the share of bank examples that have a near-duplicate, on the scale of the bank."""
    vectors = selector.bank.snapshot.vectors
    cosines, _ = top_k(vectors, vectors, 2)
    mean = vectors.mean(axis=0)
    origin = (len(vectors) * float(mean @ mean) - 1) / (len(vectors) - 1)
    return float((np.asarray(cosines)[:, 1] >= origin + REPEATED * (1 - origin)).mean())


def measured(
    way: Way, task: Task, selector: CeilSelector, lm: CachedLM, experiment: str
) -> Published:
    """Return the record of one way of choosing on one task.

    Args:
        way: the settings; those of the selector are left as they are.
        task: the queries.
        selector: holds the bank.
        lm: answers.
        experiment: the name under which the record is kept.
    """
    settings = dict(way.settings)
    selector.order = settings.pop("order", "relevance")
    chosen = selector.select_many(task.validation, k=way.k, **settings)
    prompting = Prompting(
        NamedLM(Models(), lm.name), Prompt(task.template), max_new_tokens=task.max_new_tokens
    )
    with lm.metered(f"{task.name}, {way.name}") as meter:
        prompts = [selection.prompt for selection in chosen]
        replies = ask(lm, prompting, task.stop, prompts, task.validation)
    texts = [reply.prediction for reply in replies]
    metric = METRICS[task.metric]
    scores = metric.scored(texts, task.validation)
    statistics = np.asarray(metric.statistics(scores, texts, task.validation), np.float64)
    shared = overlap(task.validation, task.train)
    if (groups := programs(task.validation, task.train)) is not None:
        shared = shared._replace(question=groups)
    identity = [experiment, task.name, len(texts), way.name, lm.name, len(task.train)]
    record = Published(
        name=f"run-{digest(identity)}",
        task=task.name,
        method="dpp" if "trade_off" in settings else "topk",
        metric=task.metric,
        lm=lm.name,
        config={"encoder": "all-MiniLM-L6-v2", "shots": 4},
        queries=len(texts),
        bank=len(task.train),
        texts=f"texts-{digest([[row.id, row.input] for row in (*task.validation, *task.train)])}",
        value=100 * float(metric.from_sums(statistics.sum(axis=0), len(statistics))),
        cost=meter.cost,
        seed=None,
        trade_off=settings.get("trade_off"),
        examples=float(np.mean([len(selection) for selection in chosen])),
        statistics=statistics,
        overlap=shared,
        experiment=experiment,
        row=way.name,
        column=task.name,
    )
    return measured_here(record)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument(
        "--report",
        action="store_true",
        help="measure on the validation split, not on queries from train",
    )
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--limit", type=int, default=100, help="queries of each task")
    parser.add_argument("--lm", default="SmolLM2-135M-Instruct")
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), help="a folder for cached LM outputs"
    )
    parser.add_argument("--record", type=Path, default=RESULTS, help="a results file")
    options = parser.parse_args(arguments)
    register_order("most_relevant_first", lambda relevance, gains: prompt_order(relevance)[::-1])
    encoder = load_encoder("all-MiniLM-L6-v2")
    lm = CachedLM(load_lm(options.lm), Readings(options.out))
    experiment = "defaults" if options.report else "defaults_train"

    def runs() -> Iterator[Published]:
        for name in options.tasks:
            limit = options.limit if options.report else None
            task = load_task(name, options.data_dir, limit=limit, bank_limit=BANK)
            if not options.report:
                task = with_queries_of_train(task, options.limit)
            selector = CeilSelector.from_examples(
                task.train, encoder=encoder, template=task.template
            )
            share = repeated(selector)
            print(
                f"{name}: {len(task.train)} examples, {share:.0%} with a near-duplicate", flush=True
            )
            for way in WAYS:
                record = measured(way, task, selector, lm, experiment)
                print(f"{name}, {way.name}: {record.value:.1f}", flush=True)
                yield record

    keep(options.record, runs())


if __name__ == "__main__":
    script(main)
