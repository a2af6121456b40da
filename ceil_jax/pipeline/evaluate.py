"""From retrieved examples to prompts, predictions and a metric."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.prompts import Fit, Prompt, PromptBuilder
from ceil_jax.lm.voting import GREEDY, Voting, most_frequent
from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import Sample
from ceil_jax.retrieval.registry import Retrieved
from ceil_jax.store.rows import Rows
from ceil_jax.store.stage import Stage
from ceil_jax.tasks.draws import text_rng
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.words import Overlap, overlap

_CHUNK = 32
"""Answers that the LM is asked for at a time, at least those of one query."""


def examples_shown(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean number of retrieved examples in a prompt, without those that open every prompt.

    Args:
        rows: predictions, each with its `examples`; without rows the mean is 0.
    """
    return sum(len(row["examples"]) for row in rows) / max(1, len(rows))


def ask(
    lm: LanguageModel, task: Task, prompts: Sequence[str], queries: Sequence[Example], **sampling: Any
) -> list[str]:
    """Return the LM's answer to each prompt: the most likely choice, or for tasks without choices what it writes.

    Args:
        lm: the LM.
        task: the template, the stop strings and the longest answer.
        prompts: N prompts.
        queries: the query of each; its gold output is not read.
        sampling: further arguments of `LanguageModel.generate`; greedy decoding by default.
    """
    if queries[0].choices:
        options = [
            [task.template.continuation(query, choice) for choice in query.choices] for query in queries
        ]
        best = lm.choose(prompts, options, per_token=task.per_token)
        return [query.choices[int(i)] for query, i in zip(queries, best, strict=True)]
    return [text.strip() for text in lm.generate(prompts, task.max_new_tokens, task.stop, **sampling)]


def predict(
    stage: Stage,
    task: Task,
    queries: Sequence[Example],
    retrieved: Sequence[Sequence[Retrieved]],
    bank: Sequence[Example],
    lm: LanguageModel,
    builder: PromptBuilder,
    *,
    fit: Fit,
    what: str,
    voting: Voting = GREEDY,
) -> Rows:
    """Return the LM's answer to every query, kept in the stage.

    Tasks with choices take the most likely choice; others generate greedily up to the task's stop strings. With
    voting, a query's row has all of its `answers`, and its prediction is the most frequent one.
    """
    sampled = voting.answers > 1 and voting.by == "samples"

    def prompts_of(query: Example, chosen: Sequence[Example], prompt: Prompt) -> list[str]:
        if voting.answers == 1 or sampled:
            return [prompt.text] * voting.answers
        generator = text_rng(query.id, voting.seed, 1)
        return [one.text for one in builder.reordered(prompt, query, chosen, voting.answers, generator)]

    def work(start: int, stop: int) -> list[Any]:
        asked = queries[start:stop]
        prompts: list[list[str]] = []
        shown: list[list[Any]] = []
        for query, picks in zip(asked, retrieved[start:stop], strict=True):
            chosen = [bank[pick.position] for pick in picks]
            prompt = builder.build(query, chosen, [pick.relevance for pick in picks], fit)
            prompts.append(prompts_of(query, chosen, prompt))
            shown.append(
                [[picks[i].id, round(picks[i].relevance, 6), round(picks[i].gain, 6)] for i in prompt.order]
            )
        texts = [text for own in prompts for text in own]
        owners = [query for query in asked for _ in range(voting.answers)]
        # keyword arguments only where they are needed: greedy decoding is every LM's default
        seeds = [*range(voting.answers)] * len(asked)
        drawn: dict[str, Any] = {"temperature": voting.temperature, "seed": seeds} if sampled else {}
        given = iter(ask(lm, task, texts, owners, **drawn))
        answers = [[next(given) for _ in own] for own in prompts]
        return [
            {
                "id": query.id,
                "examples": examples,
                "prediction": most_frequent(own),
                "gold": query.output,
                **({"answers": own} if voting.answers > 1 else {}),
            }
            for query, examples, own in zip(asked, shown, answers, strict=True)
        ]

    chunk = max(1, _CHUNK // voting.answers)
    return stage.rows(len(queries), work, chunk=chunk, what=what, cost=lambda: lm.tokens_read)


def answer_with_majority(stage: Stage, task: Task, queries: Sequence[Example], *, what: str) -> Rows:
    """Return the most common output of the bank as the answer to every query, kept in the stage.

    Of outputs that are equally common it is the first one in the bank. This is what a score says little above.
    """
    [(common, _)] = Counter(example.output for example in task.train).most_common(1)

    def work(start: int, stop: int) -> list[Any]:
        return [
            {"id": query.id, "examples": [], "prediction": common, "gold": query.output}
            for query in queries[start:stop]
        ]

    return stage.rows(len(queries), work, chunk=len(queries), what=what, cost=lambda: 0)


def scored(
    task: Task, queries: Sequence[Example], rows: Sequence[Mapping[str, Any]]
) -> tuple[np.ndarray, Sample]:
    """Return the task's metric of each query, float64 [N], and the answers as what it is computed from in all.

    Args:
        task: names the metric.
        queries: N queries.
        rows: their predictions, each with its `prediction`.
    """
    metric, predictions = metric_named(task.metric), [row["prediction"] for row in rows]
    scores = np.asarray(metric.per_example(predictions, queries), np.float64)
    return scores, Sample(metric.statistics(scores, predictions, queries), metric.from_sums)


def measure(stage: Stage, task: Task, queries: Sequence[Example], rows: Rows) -> float:
    """Return the task's metric over predictions, and keep in the stage what it is computed from.

    `examples.csv` has one row a query; `scores.npy` the metric of each query, float [N]; `statistics.npy` what the
    metric is a function of the sums of, float [N, s]; `overlap.npy` which queries ask the same and which stand in the
    bank.
    """
    if stage.summary is None:
        scores, (statistics, from_sums) = scored(task, queries, rows)
        predictions = [row["prediction"] for row in rows]
        more = {name: float(metric_named(name).corpus(predictions, queries)) for name in task.more_metrics}
        stage.save("scores.npy", scores)
        stage.save("statistics.npy", statistics)
        stage.save("overlap.npy", np.stack(overlap(queries, task.train)))
        stage.write("examples.csv", _table(rows, scores, task.metric).encode())
        # not `corpus`, which would run every query's SQL again
        value = float(from_sums(statistics.sum(axis=0), len(statistics)))
        files = ("scores.npy", "statistics.npy", "overlap.npy", "examples.csv")
        stage.finish({"metric": task.metric, "value": value, "more": more}, files)
    assert stage.summary is not None
    return stage.summary["value"]


def read_overlap(kept: np.ndarray) -> Overlap:
    """Return the overlap that a stage of metrics keeps as int [3, N]."""
    return Overlap(kept[0], kept[1].astype(bool), kept[2].astype(bool))


def _table(rows: Rows, scores: np.ndarray, metric: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", metric, "prediction", "gold", "examples in prompt order"])
    for row, score in zip(rows, scores, strict=True):
        shown = " ".join(example[0] for example in row["examples"])
        writer.writerow([row["id"], f"{score:g}", row["prediction"], row["gold"], shown])
    return out.getvalue()
