"""The steps that answer queries and measure the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.lm.prompts import Built, Fit, PromptBuilder
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.prompting import Prompting, sample, work_of_reading
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.ways import Reply, ask, way_of_answering
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.store.folder import load_arrays, save_arrays
from ceil_jax.store.kept import Files, Lazy, Noted, Work, json_file, kept
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.structures import programs
from ceil_jax.tasks.words import Overlap, overlap
from ceil_jax.training.free.encoder import classified
from ceil_jax.training.free.rows import Head, Observations

Row = dict[str, Any]
"""The answer to a query: its id, its examples in prompt order (id, relevance, gain), the
prediction, the gold output, and a code for an answer that is probably wrong."""

Answers = Lazy[list[Row]]
"""The answers to queries, given by one of the functions below."""

ROWS_FILE = json_file("rows.json")


def rows_of(
    queries: Examples, replies: Sequence[Reply], examples: Sequence[list[Any]] | None = None
) -> Noted:
    """Return the answer to each query, by default without examples, and notes on all of them."""
    rows = []
    for query, shown, reply in zip(
        queries.examples, examples or [[]] * len(replies), replies, strict=True
    ):
        row = {
            "id": query.id,
            "examples": shown,
            "prediction": reply.prediction,
            "gold": query.output,
        }
        rows.append(row | ({"trouble": reply.trouble} if reply.trouble else {}))
    troubles = Counter(row["trouble"] for row in rows if row.get("trouble"))
    notes = {"troubles": dict(troubles)} if troubles else {}
    return Noted(rows, {"queries": len(rows), **notes})


def prompts_of(
    run: Run,
    answers: Answers,
    queries: Sequence[Example],
    choice: Choice,
    builder: PromptBuilder | None = None,
) -> list[Built]:
    """Return the prompt of each query.

    Args:
        run: gives the LM whose tokens are counted.
        answers: a value of `answer`, for its bank and its prompting.
        queries: Q examples.
        choice: the examples chosen for them.
        builder: a prompt builder for these queries, if there already is one.
    """
    return _prompts(
        builder or answers.prompting.builder(run, queries),
        answers.bank,
        queries,
        choice,
        answers.prompting.fit,
    )


def _prompts(
    builder: PromptBuilder, bank: Examples, queries: Sequence[Example], choice: Choice, fit: Fit
) -> list[Built]:
    prompts = []
    for query, positions, relevance, gains in zip(queries, *choice, strict=True):
        count = int((positions >= 0).sum())
        prompt = builder.build(
            query,
            [bank.examples[position] for position in positions[:count]],
            [float(value) for value in relevance[:count]],
            fit,
            [float(value) for value in gains[:count]],
        )
        prompts.append(prompt)
    return prompts


def work_of_answering(run: Run, answers: Answers) -> Work:
    """Return the work of answering queries.

    Random examples take the place of those that are not chosen yet.
    """
    some = sample(len(answers.queries))
    queries = answers.queries.examples[some]
    if run.notes(answers.choice):
        choice = Choice(*(array[some] for array in run.get(answers.choice)))
    else:
        generator = np.random.default_rng(0)
        drawn = [generator.permutation(len(answers.bank))[: answers.shots] for _ in queries]
        positions = np.array(drawn, np.int32).reshape(len(queries), -1)
        choice = Choice(positions, np.zeros(positions.shape), np.zeros(positions.shape))
    prompts = [built.prompt for built in prompts_of(run, answers, queries, choice)]
    prompting = answers.prompting
    way = way_of_answering(run.lm(prompting.lm), prompting, answers.stop, queries)
    golds = [query.output for query in answers.queries.examples[:200]]
    times = len(answers.queries) / max(1, len(queries))
    return work_of_reading(run, prompting.lm, way.requests(prompts, queries), times, golds)


@kept(
    "predictions",
    files=ROWS_FILE,
    what=lambda answers: f"answering with {answers.label or 'examples'}",
    work=work_of_answering,
    unkeyed=("shots", "label"),
)
def answer(
    run: Run,
    queries: Examples,
    bank: Examples,
    prompting: Prompting,
    choice: Choice,
    stop: tuple[str, ...] = ("\n",),
    shots: int = 1,
    label: str = "",
) -> list[Row] | Noted:
    """Return the LM's answer to every query with the chosen examples (`ways.ask`).

    Args:
        run: gives the LM.
        queries: the queries; gold outputs are not read.
        bank: the bank.
        prompting: the prompts.
        choice: the examples chosen for each query.
        stop: strings at which a generated answer ends.
        shots: number of examples in a prompt, to estimate the work.
        label: names the examples in progress bars.
    """
    builder = prompting.builder(run, queries.examples)
    prompts = _prompts(builder, bank, queries.examples, choice, prompting.fit)
    rendered = [built.prompt for built in prompts]
    replies = ask(run.lm(prompting.lm), prompting, stop, rendered, queries.examples)
    examples = [
        [
            [
                bank.examples[positions[i]].id,
                round(float(relevance[i]), 6),
                round(float(gains[i]), 6),
            ]
            for i in prompt.order
        ]
        for prompt, positions, relevance, gains in zip(prompts, *choice, strict=True)
    ]
    rows, notes = rows_of(queries, replies, examples)
    limit = {"limit": prompting.max_new_tokens} if "troubles" in notes else {}
    return Noted(rows, {**notes, **limit})


@kept("majority", files=ROWS_FILE)
def most_common(queries: Examples, bank: Examples) -> list[Row] | Noted:
    """Return the most common output of the bank as the answer to every query.

    In a tie, the one that comes first.
    """
    [(common, _)] = Counter(example.output for example in bank.examples).most_common(1)
    return rows_of(queries, [Reply(common)] * len(queries))


@kept("classified", files=ROWS_FILE)
def classify(
    queries: Examples, bank: Examples, head: Head | None, rows: Observations
) -> list[Row] | Noted:
    """Return the most probable label of every query, by a classifier trained on the bank.

    No LM is called. `rows` are the queries as inputs of the head.
    """
    assert head is not None, "a row that classifies has a head without an alternative"
    return rows_of(queries, [Reply(label) for label in classified(head, rows)])


@kept("copied", files=ROWS_FILE)
def copy(queries: Examples, bank: Examples, choice: Choice) -> list[Row] | Noted:
    """Return the output of the first chosen example as the answer to each query; "" if none."""
    first = choice.positions[:, 0]
    outputs = [bank.examples[position].output if position >= 0 else "" for position in first]
    return rows_of(queries, [Reply(output) for output in outputs])


ANSWERS = (answer, most_common, classify, copy)
"""All kept functions that answer queries."""


class Measured(NamedTuple):
    """The result of measuring predictions: the value of the metric over all queries, and for each query."""

    value: float
    """The metric over all queries, from 0 to 1; for corpus metrics it is not the mean of
    `scores`."""
    more: dict[str, float]
    scores: np.ndarray
    """float64 [N]: the metric of each query."""
    statistics: np.ndarray
    """float64 [N, s]: statistics of each query; the metric is a function of their sums."""
    overlap: Overlap
    """Which queries are the same question, and which are in the bank."""


def read_measured(folder: Path, notes: Mapping[str, Any]) -> Measured:
    """Return the metrics in a folder, given its notes."""
    arrays = load_arrays(folder / "metric.npz")
    shared = Overlap(
        arrays["overlap"][0], arrays["overlap"][1].astype(bool), arrays["overlap"][2].astype(bool)
    )
    return Measured(notes["value"], notes["more"], arrays["scores"], arrays["statistics"], shared)


@kept(
    "metric",
    files=Files(
        lambda folder, measured: save_arrays(
            folder / "metric.npz",
            scores=measured.scores,
            statistics=measured.statistics,
            overlap=np.stack(measured.overlap),
        ),
        lambda run, lazy, folder: read_measured(folder, run.notes(lazy)),
    ),
    version=3,
    what="measuring answers",
    registered=lambda measured: tuple(METRICS[name] for name in (measured.metric, *measured.more)),
    lazily=("predictions",),
)
def measure(
    run: Run, predictions: Answers, metric: str, more: tuple[str, ...] = ()
) -> Measured | Noted:
    """Return the task's metrics of answers.

    Intervals resample equal queries together: those with the same question or, if outputs are
    programs, with the same program (`tasks.structures.programs`).
    """
    queries = predictions.queries.examples
    answers = [row["prediction"] for row in run.get(predictions)]
    of_task = METRICS[metric]
    scores = of_task.scored(answers, queries)
    statistics = np.asarray(of_task.statistics(scores, answers, queries), np.float64)
    # not `corpus`, which would run every query's SQL again
    value = float(of_task.from_sums(statistics.sum(axis=0), len(statistics)))
    others = {name: float(METRICS[name].corpus(answers, queries)) for name in more}
    bank = predictions.bank.examples
    shared = overlap(queries, bank)
    if (program_of_each := programs(queries, bank)) is not None:
        shared = shared._replace(question=program_of_each)
    measured = Measured(value, others, scores, statistics, shared)
    return Noted(measured, {"value": value, "more": others})


Metrics = Lazy[Measured]
"""The lazy value of a call of `measure`."""
