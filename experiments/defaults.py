"""Which defaults a selector should have: λ, near-copies and the number of examples.

    python experiments/defaults.py --data-dir DATA             # chooses, on queries taken from train
    python experiments/defaults.py --data-dir DATA --report    # what was chosen, on validation

Every row is a way of choosing K examples with the untrained encoder for six tasks, of which two
have programs as outputs and two many near-copies in the bank (the first line for each task says
how many). Cosines are on the scale of the bank (`dpp.kernel.rescaled`): 0 is their mean over all
pairs of the bank. The row "before" is what a selector did by default until then: λ = 0.1 and
near-copies from a cosine of 0.8, as they are.

To choose, queries are drawn from the training split and left out of the bank. Their answers decide
which rows are reported on the validation split, together with "before". Both are recorded.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness.command import script
from harness.results_file import RESULTS, Published, keep, read_results

from ceil_jax import load_encoder, load_task
from ceil_jax.distributed.machine import device
from ceil_jax.dpp.greedy_numpy import greedy_steps
from ceil_jax.dpp.kernel import rescaled, similarity
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.lm import load_lm
from ceil_jax.lm.cached import CachedLM
from ceil_jax.lm.prompts import Prompt, PromptBuilder, answer_reserve
from ceil_jax.lm.readings import Readings
from ceil_jax.metrics import METRICS
from ceil_jax.metrics.bootstrap import bootstrap_interval, paired
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Table, signed
from ceil_jax.retrieval.index import top_k
from ceil_jax.store.hashing import digest
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.structures import programs
from ceil_jax.tasks.words import overlap

TASKS = ("sst5", "geoquery", "mtop", "cogs.ps", "nl2bash", "webqs")
BANK = 3000
"""The largest bank; of a larger one a seeded sample."""
SHORTLIST = 100
NEAR = 0.9
"""Two examples of a bank are counted as near-copies from this rescaled cosine."""
_DRAW = 7
"""Seed of the queries that are taken from train."""


@dataclass(frozen=True)
class Way:
    """A way of choosing examples."""

    name: str
    shots: int = 4
    trade_off: float | None = None
    """λ of greedy MAP; None for the nearest."""
    near_duplicate: float | None = None
    """The rescaled cosine to a chosen example from which an example waits until others are used
    up."""
    absolute: bool = False
    """Whether cosines are taken as they are."""


NEAREST = Way("nearest")
BEFORE = Way("before", trade_off=0.1, near_duplicate=0.8, absolute=True)
WAYS = (
    NEAREST,
    Way("nearest, K = 8", shots=8),
    Way("near-copies 0.9 wait", near_duplicate=0.9),
    Way("near-copies 0.8 wait", near_duplicate=0.8),
    Way("λ = 0.01", trade_off=0.01),
    Way("λ = 0.03", trade_off=0.03),
    Way("λ = 0.1", trade_off=0.1),
    BEFORE,
)
REPORTED = ("nearest", "nearest, K = 8", "near-copies 0.9 wait", "λ = 0.01", "before")


class Vectors(NamedTuple):
    """Unit vectors of a task's queries and bank, and the mean cosine of the bank's pairs."""

    queries: np.ndarray
    bank: np.ndarray
    origin: float


def with_queries_of_train(task: Task, count: int) -> Task:
    """Return a task whose queries are drawn from its bank, and left out of the bank."""
    drawn = np.random.default_rng(_DRAW).permutation(len(task.train))[:count]
    out = set(drawn.tolist())
    bank = [example for position, example in enumerate(task.train) if position not in out]
    return replace(task, train=bank, validation=[task.train[position] for position in drawn])


def mean_cosine(vectors: np.ndarray) -> float:
    """Return the mean cosine of all pairs of different rows of unit vectors [N, D]."""
    count = len(vectors)
    total = vectors.sum(axis=0, dtype=np.float64)
    return float((total @ total - count) / (count * (count - 1)))


def choice(way: Way, vectors: np.ndarray, cosines: np.ndarray, origin: float) -> list[int]:
    """Return positions in a shortlist, nearest first, in the order in which they are chosen.

    Args:
        way: how to choose.
        vectors: unit vectors of the shortlist, float [n, D].
        cosines: their cosines to the query, float [n].
        origin: the cosine that counts as 0.
    """
    origin = 0.0 if way.absolute else origin
    taken: list[int] = []

    def waits(item: int) -> bool:
        if way.near_duplicate is None or not taken:
            return False
        near = rescaled(vectors[taken] @ vectors[item], origin)
        return bool(near.max() >= way.near_duplicate)

    if way.trade_off is None:
        late: list[int] = []
        for item in range(len(vectors)):
            (late if waits(item) else taken).append(item)
        return [*taken, *late][: way.shots]
    relevance = similarity(rescaled(cosines, origin))
    for step in greedy_steps(vectors, relevance, way.trade_off, waits=waits, origin=origin):
        taken.append(step.item)
        if len(taken) == way.shots:
            break
    return taken


def prompts_of(way: Way, task: Task, vectors: Vectors, lm: CachedLM) -> list[str]:
    """Return the prompt of every query by one way of choosing."""
    prompt = Prompt(task.template)
    reserve = answer_reserve(lm, prompt, task.validation, task.max_new_tokens)
    builder = PromptBuilder(lm, prompt, reserve)
    cosines, shortlist = top_k(vectors.queries, vectors.bank, min(SHORTLIST, len(vectors.bank)))
    prompts = []
    for query, row, near in zip(task.validation, shortlist, cosines, strict=True):
        items = choice(way, vectors.bank[row], near, vectors.origin)
        examples = [task.train[row[item]] for item in items]
        relevance = [float(near[item]) for item in items]
        prompts.append(builder.build(query, examples, relevance).text)
    return prompts


def answers(lm: CachedLM, task: Task, prompts: Sequence[str]) -> list[str]:
    """Return the LM's answers: the likeliest choice, or written text."""
    if not task.validation[0].choices:
        written = lm.generate(prompts, task.max_new_tokens, task.stop)
        return [text.strip() for text in written]
    options = [
        [task.template.continuation(query, option) for option in query.choices]
        for query in task.validation
    ]
    best = lm.choose(prompts, options)
    return [query.choices[int(i)] for query, i in zip(task.validation, best, strict=True)]


def measured(
    way: Way, task: Task, vectors: Vectors, lm: CachedLM, encoder: str, column: str
) -> Published:
    """Return the record of one way of choosing on one task."""
    prompts = prompts_of(way, task, vectors, lm)
    with lm.metered(f"{task.name}, {way.name}") as meter:
        texts = answers(lm, task, prompts)
    metric = METRICS[task.metric]
    scores = metric.scored(texts, task.validation)
    statistics = np.asarray(metric.statistics(scores, texts, task.validation), np.float64)
    value = 100 * float(metric.from_sums(statistics.sum(axis=0), len(statistics)))
    shared = overlap(task.validation, task.train)
    if (groups := programs(task.validation, task.train)) is not None:
        shared = shared._replace(question=groups)
    settings = [task.name, column, len(prompts), way.name, lm.name, encoder, len(task.train)]
    record = Published(
        name=f"run-{digest(settings)}",
        task=task.name,
        method="topk" if way.trade_off is None else "dpp",
        metric=task.metric,
        lm=lm.name,
        config={"encoder": encoder, "shots": way.shots},
        queries=len(prompts),
        bank=len(task.train),
        texts=digest([example_key(example) for example in (*task.validation, *task.train)]),
        value=value,
        cost=meter.cost,
        seed=None,
        trade_off=way.trade_off,
        device=device(),
        examples=float(way.shots),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        statistics=statistics,
        overlap=shared,
        experiment="defaults",
        row=way.name,
        column=column,
    )
    interval = Runs((record,)).interval
    return replace(record, low=interval.low, high=interval.high)


def example_key(example: Example) -> list[str]:
    """Return what of an example the record's hash of texts covers."""
    return [example.id, example.input, example.output]


def near_copies(vectors: Vectors) -> float:
    """Return the share of the bank that has another example at a rescaled cosine of NEAR."""
    cosines, _ = top_k(vectors.bank, vectors.bank, 2)
    return float((rescaled(np.asarray(cosines)[:, 1], vectors.origin) >= NEAR).mean())


def table(records: Sequence[Published], part: str) -> str:
    """Return the differences from the nearest examples as Markdown, a column for each task."""
    own = [r for r in records if r.experiment == "defaults" and r.column.endswith(part)]
    tasks = list(dict.fromkeys(record.task for record in own))
    of = {(record.task, record.row): record for record in own}
    body: list[list[str | None]] = []
    for way in WAYS:
        cells: list[str | None] = []
        every = []
        for task in tasks:
            record, base = of.get((task, way.name)), of.get((task, NEAREST.name))
            if record is None or base is None:
                cells.append(None)
            elif way is NEAREST:
                cells.append(f"{record.value:.1f}")
                every.append(record.value)
            else:
                sample = paired(Runs((record,)).sample, Runs((base,)).sample)
                cells.append(str(signed(bootstrap_interval(*sample).percent())))
                every.append(record.value - base.value)
        if every:
            average = f"{np.mean(every):+.1f}" if way is not NEAREST else f"{np.mean(every):.1f}"
            body.append([way.name, *cells, average])
    return Table(["", *tasks, "average"], body).markdown()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--report", action="store_true", help="on the validation split")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--limit", type=int, default=60, help="queries of each task")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--lm", default="SmolLM2-135M-Instruct")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="what the LM has read")
    parser.add_argument("--record", type=Path, default=RESULTS, help="a results file")
    options = parser.parse_args(arguments)
    encoder = load_encoder(options.encoder)
    lm = CachedLM(load_lm(options.lm), Readings(options.out))
    part = "validation" if options.report else "train"
    ways = [way for way in WAYS if not options.report or way.name in REPORTED]

    def runs() -> Iterator[Published]:
        for name in options.tasks:
            limit = options.limit if options.report else None
            task = load_task(name, options.data_dir, limit=limit, bank_limit=BANK)
            if not options.report:
                task = with_queries_of_train(task, options.limit)
            bank = unit_rows(encoder.encode([example.input for example in task.train]))
            queries = unit_rows(encoder.encode([example.input for example in task.validation]))
            vectors = Vectors(queries, bank, mean_cosine(bank))
            print(
                f"{name}: {len(bank)} examples, mean cosine {vectors.origin:.2f}, "
                f"{100 * near_copies(vectors):.0f} % with a near-copy",
                flush=True,
            )
            for way in ways:
                record = measured(way, task, vectors, lm, options.encoder, f"{name}, {part}")
                print(f"{name}, {way.name}: {record.value:.1f}", flush=True)
                yield record

    keep(options.record, runs())
    print(table(read_results(options.record), part))


if __name__ == "__main__":
    script(main)
